package fleet

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"svc.internal/pkg/node"
	"svc.internal/services/standalone/localdata"
)

func TestSettingsAreMergedKeyByKey(t *testing.T) {
	base := settings{"a": 1, "hub": settings{"id": "hub-1", "pepper": "x"}}
	got := merge(base, settings{"b": 2, "hub": settings{"id": "hub-9"}})
	want := settings{"a": 1, "b": 2, "hub": settings{"id": "hub-9", "pepper": "x"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("merge(…): got %v, want %v", got, want)
	}
	if base["hub"].(settings)["id"] != "hub-1" {
		t.Errorf(`what is merged onto, afterwards: got %v, want "hub-1"`, base["hub"].(settings)["id"])
	}
}

func TestNoTwoProcessesShareAPort(t *testing.T) {
	l := blockLayout(20_000)
	seen := map[string]string{}
	for _, program := range startOrder {
		for i := 1; i <= MaxReplicas; i++ {
			name := instance(program, i)
			addresses := []string{l.grpc(name), l.admin(name)}
			if program == NATS {
				if i > natsCluster {
					break
				}
				addresses = append(addresses, l.route(name))
			}
			if program == Hub || program == Gateway {
				addresses = append(addresses, l.face(program, name))
			}
			if program == Gateway {
				addresses = append(addresses, l.operators(name))
			}
			for _, a := range addresses {
				if other, taken := seen[a]; taken {
					t.Errorf("%s and %s share %s", name, other, a)
				}
				seen[a] = name
				if a < "127.0.0.1:20000" || a >= address(20_000+blockPorts) {
					t.Errorf(`%s listens at %s, of its block: got %q, want at least "127.0.0.1:20000" and less than %q`, name,
						a, a, address(20_000+blockPorts))
				}
			}
		}
	}
}

func TestTwoFleetsLeaseTwoBlocks(t *testing.T) {
	first, err := leasePorts()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := tryBlock(filepath.Dir(first.lock.Name()), first.first); again != nil {
		t.Errorf("leasing a block twice: again: got %+v, want nil", again)
	} else if err != nil {
		t.Errorf("leasing a block twice: got the error %v, want none", err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	again, err := tryBlock(filepath.Dir(first.lock.Name()), first.first)
	if err != nil {
		t.Fatalf("leasing a block that was given back: got the error %v, want none", err)
	}
	if again == nil {
		t.Fatal("leasing a block that was given back: again: got nil, want a value")
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}

func TestALogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10) // 1 MiB
	for range 3 * maxLog / len(chunk) {
		if _, err := log.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := log.Write([]byte("the end\n")); err != nil {
		t.Fatal(err)
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, file := range []string{path, path + ".1"} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 2*maxLog {
		t.Errorf("bytes of log kept: got %d, want at most %d", total, 2*maxLog)
	}
	if got := tail(path, 12); !strings.HasSuffix(got, "the end\n") {
		t.Errorf("the tail: got %q, want the suffix %q", got, "the end\n")
	} else if len(got) > 12 {
		t.Errorf("the tail: len(got): got %d, want at most 12, in %q", len(got), got)
	}
	if got := tail(path+".none", 12); got != "" {
		t.Errorf(`the tail of nothing: got %q, want ""`, got)
	}
}

func TestProcessesInheritNothingThatChangesTheirSettings(t *testing.T) {
	t.Setenv("SVC_LOG_LEVEL", "debug")
	t.Setenv("DATABASE_URL", "postgres://elsewhere")
	t.Setenv("GOGC", "50")
	cfg := Config{Environ: []string{"SVC_CRASH_SOCKET=/x"}}
	text := strings.Join(cfg.environment(), "\n")
	if strings.Contains(text, "SVC_LOG_LEVEL") {
		t.Errorf(`settings of the parent: text: got %q, want it without "SVC_LOG_LEVEL"`, text)
	} else if strings.Contains(text, "elsewhere") {
		t.Errorf(`settings of the parent: text: got %q, want it without "elsewhere"`, text)
	}
	if !strings.Contains(text, "GOGC=50") {
		t.Errorf(`what is not a setting, or was given: text: got %q, want "GOGC=50" in it`, text)
	} else if !strings.Contains(text, "SVC_CRASH_SOCKET=/x") {
		t.Errorf(`what is not a setting, or was given: text: got %q, want "SVC_CRASH_SOCKET=/x" in it`, text)
	}
}

func TestProcessesAreToldTheDetoursOfTheConfiguration(t *testing.T) {
	dir, err := localdata.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg := Config{Dir: "x", BinDir: "y", Replicas: map[string]int{Agent: 3}, Via: func(from, to, address string) (string,
		error) {
		return from + ">" + to + "@" + address, nil
	}}
	if err := cfg.fill(); err != nil {
		t.Fatal(err)
	}
	f := &Fleet{cfg: cfg, dir: dir, layout: blockLayout(20_000), members: map[string]*member{},
		databases: map[string]node.Database{Hub: {URL: "postgres://svc_hub_login:secret@127.0.0.1:5432/postgres"}}}
	for _, program := range startOrder {
		for i := 1; i <= cfg.Replicas[program]; i++ {
			f.members[instance(program, i)] = &member{}
		}
	}
	hub, err := f.settings(Hub, "provider-hub-2")
	if err != nil {
		t.Fatal(err)
	}
	nats, own := f.layout.grpc("nats-1"), f.layout.grpc("provider-hub-2")
	if hub["nats_url"] != "tls://provider-hub-2>nats-1@"+nats {
		t.Errorf(`hub["nats_url"]: got %v, want %v`, hub["nats_url"], "tls://provider-hub-2>nats-1@"+nats)
	} else if hub["grpc_advertise"] != ">provider-hub-2@"+own {
		t.Errorf(`hub["grpc_advertise"]: got %v, want %v`, hub["grpc_advertise"], ">provider-hub-2@"+own)
	}
	secret, err := os.ReadFile(dir.Path("secrets", "database-url-provider-hub-2"))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !strings.Contains(string(secret), "postgres-1") {
		t.Errorf(`the database: secret: got %q, want "postgres-1" in it`, string(secret))
	}
	gateway, err := f.settings(Gateway, "edge-gateway-1")
	if err != nil {
		t.Fatal(err)
	}
	if peers := gateway["peers"].(map[string][]string)[Billing]; len(peers) != 2 {
		t.Errorf("len(peers): got %d, want 2, in %v", len(peers), peers)
	} else if want := "edge-gateway-1>billing-ledger-2@" + f.layout.grpc("billing-ledger-2"); peers[1] != want {
		t.Errorf("peers[1]: got %q, want %q", peers[1], want)
	}
	agent, err := f.agentEnvironment("svc-agent-3")
	want := "SVC_WS_URL=ws://svc-agent-3>provider-hub-1@" + f.layout.face(Hub, "provider-hub-1")
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if agent[0] != want {
		t.Errorf("agent[0]: got %q, want %q", agent[0], want)
	}
}

func TestAFleetWithReferencesVerifiesItsProviders(t *testing.T) {
	for references, want := range map[int]settings{
		0: {"probes": false, "waived": true, "hub": false, "settlement": false, "word": "/qualification", "collateral": true},
		1: {"probes": true, "waived": false, "hub": true, "settlement": true, "word": "/qualification", "collateral": nil},
	} {
		dir, err := localdata.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := dir.Close(); err != nil {
				t.Error(err)
			}
		}()
		f := &Fleet{cfg: Config{Dir: "x", BinDir: "y", Replicas: map[string]int{Agent: 2}, References: references},
			dir: dir, layout: blockLayout(20_000), members: map[string]*member{}, databases: map[string]node.Database{}}
		if err := f.cfg.fill(); err != nil {
			t.Fatal(err)
		}
		got := settings{}
		for _, program := range []string{Verifier, Hub, Settlement} {
			all, err := f.settings(program, instance(program, 1))
			if err != nil {
				t.Fatal(err)
			}
			switch program {
			case Verifier:
				own := all["verifier"].(settings)
				got["probes"], got["waived"] = own["probes"], own["benchmarks_waived"]
			case Hub:
				got["hub"] = all["hub"].(settings)["development_collateral"]
			default:
				got["settlement"] = all["settlement"].(settings)["development_collateral"]
			}
		}
		path, word := f.becomes(0)
		got["word"], got["collateral"] = path, word["collateral"]
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d references: got %v, want %v", references, got, want)
		}
		if path, _ := f.becomes(1); (path == "/reference") != (references == 1) {
			t.Errorf("%d references: the last agent: got %s", references, path)
		}
	}
}

func TestAGroupHasTheReplicasOfItsHub(t *testing.T) {
	for _, c := range []struct {
		replicas map[string]int
		refused  bool
	}{
		{nil, false},
		{map[string]int{Hub: 1}, false},
		{map[string]int{Hub: 3, Gateway: 3, Router: 3}, false},
		{map[string]int{Hub: 2, Gateway: 1}, true},
		{map[string]int{Router: 3}, true},
	} {
		cfg := Config{Dir: "x", BinDir: "y", Grouped: true, Replicas: c.replicas}
		if c.replicas[Hub] == 1 {
			cfg.Replicas[Agent] = 1
		}
		err := cfg.fill()
		if refused := err != nil; refused != c.refused {
			t.Errorf("replicas %v: got the error %v, want one: %t", c.replicas, err, c.refused)
		}
		if err == nil && cfg.Replicas[Gateway]+cfg.Replicas[Router] != 0 {
			t.Errorf("replicas %v: processes beside the hubs: got %d gateways and %d routers, want none", c.replicas,
				cfg.Replicas[Gateway], cfg.Replicas[Router])
		}
	}
}
