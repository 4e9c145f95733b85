package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/standalone/localdata"
)

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a fleet is for make e2e")
	}
}

// begin starts a fleet of single replicas without demo, until the test ends.
func begin(t *testing.T, change func(*Config)) *Fleet {
	t.Helper()
	skipShort(t)
	bin, err := Build(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	replicas := map[string]int{Agent: 0, Engine: 0}
	for _, service := range Services() {
		replicas[service] = 1
	}
	cfg := Config{Dir: t.TempDir(), BinDir: bin, LogLevel: "warn", DrainDelay: 50 * time.Millisecond, Replicas: replicas}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	f, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := localdata.RemovePostgres(cfg.Dir); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestMain(m *testing.M) { pgtest.Main(m) }

// onGivenDatabase is for fleets that need no PostgreSQL of their own.
func onGivenDatabase(t *testing.T) func(*Config) {
	return func(c *Config) { c.DatabaseURL = pgtest.URL(t) }
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// steady waits until a status finds all ready, because it counts a process that has no
// time to answer as not ready.
func steady(t *testing.T, f *Fleet) []Status {
	t.Helper()
	deadline := time.NewTimer(5 * time.Minute)
	defer deadline.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		all := f.Status(t.Context())
		if !slices.ContainsFunc(all, func(s Status) bool { return s.State != StateReady }) {
			return all
		}
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("not all are ready: %+v", all)
		}
	}
}

func TestAFleetStartsLosesProcessesAndStopsInOrder(t *testing.T) {
	var order []string
	f := begin(t, func(c *Config) {
		c.Step = func(name string) func(string) {
			return func(string) {
				if stopped, ok := strings.CutPrefix(name, "Stopping "); ok {
					order = append(order, stopped)
				}
			}
		}
	})
	pids := map[string]int{}
	for _, name := range f.Names() {
		pids[name] = f.Pid(name)
		if !alive(pids[name]) {
			t.Errorf("%s does not run", name)
		}
		if err := f.Ready(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	// A kill and a restart of the processes that all others depend on.
	for _, name := range []string{"postgres-1", "nats-1", "billing-ledger-1"} {
		killAndStart(t, f, name, pids[name])
	}
	if err := f.Restart(t.Context(), "catalog-1"); err != nil {
		t.Fatal(err)
	}
	if f.Pid("catalog-1") == pids["catalog-1"] {
		t.Error("catalog-1 was not restarted")
	}
	if err := f.WaitReady(t.Context(), f.Names()...); err != nil {
		t.Error(err)
	}
	if exits := f.Exits(); len(exits) > 0 {
		t.Errorf("ends told that were asked for: got %d, want 0, in %v", len(exits), exits)
	}
	for _, s := range steady(t, f) {
		if s.Pid == 0 {
			t.Error("status: s.Pid: got 0, want any but 0")
		} else if s.Started.IsZero() {
			t.Error("status: s.Started.IsZero(): got true, want false")
		}
		pids[s.Name] = s.Pid
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for name, pid := range pids {
		if alive(pid) {
			t.Errorf("%s is still there", name)
		}
	}
	want := "edge-gateway-1 verifier-1 provider-hub-1 router-1 settlement-1 chain-signer-1 billing-ledger-1 catalog-1 " +
		"nats-1 postgres-1"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("they stopped: got %q, want %q", got, want)
	}
}

// killAndStart kills a process, checks that it is gone, and starts it again.
func killAndStart(t *testing.T, f *Fleet, name string, pid int) {
	t.Helper()
	if err := f.Kill(name); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Errorf("%s after its kill: alive(pid): got true, want false", name)
	} else if got := f.Pid(name); got != 0 {
		t.Errorf("%s after its kill: f.Pid(name): got %d, want 0", name, got)
	} else if f.Ready(t.Context(), name) == nil {
		t.Errorf("%s after its kill: f.Ready(t.Context(), name): got no error, want one", name)
	}
	if err := f.Start(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// saysHowFar checks that a fleet whose models are not callable says what a provider lacks.
func saysHowFar(t *testing.T, f *Fleet) {
	t.Helper()
	api, err := f.newOperator()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.makeProvider(t.Context(), 1, "/qualification",
		fields{"gpu_waived": true, "reason": "a test"}); err != nil {
		t.Fatal(err)
	}
	want := "Demo provider 1 is pending, not connected, without collateral, without a benchmark"
	if got := fmt.Sprint(f.unready(t.Context())); got != want {
		t.Errorf("why no model is callable: got %s, want %s", got, want)
	}
}

func TestAProcessThatEndsUnaskedIsToldAndStartedAgain(t *testing.T) {
	told := make(chan Exit, 4)
	f := begin(t, func(c *Config) {
		onGivenDatabase(t)(c)
		c.Restart = true
		c.Report = func(e Exit) { told <- e }
	})
	saysHowFar(t, f)
	pid := f.Pid("router-1")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	switch e := <-told; {
	case e.Name != "router-1":
		t.Errorf(`it was told: e.Name: got %q, want "router-1"`, e.Name)
	case e.Pid != pid:
		t.Errorf("it was told: e.Pid: got %d, want %d", e.Pid, pid)
	case !strings.Contains(e.Reason, "killed"):
		t.Errorf(`it was told: e.Reason: got %q, want "killed" in it`, e.Reason)
	}
	if err := f.WaitReady(t.Context(), "router-1"); err != nil {
		t.Fatal(err)
	}
	if again := f.Pid("router-1"); again == 0 {
		t.Error("pid: got 0, want any but 0")
	} else if again == pid {
		t.Errorf("pid: got %d, want any but %d", again, pid)
	}
}

func TestServicesRefuseTheClearAndTheirFilesAreClosedToOthers(t *testing.T) {
	f := begin(t, onGivenDatabase(t))
	resp, err := http.Get("http://" + f.GRPCAddr("billing-ledger-1")) //nolint:noctx // it is refused at once
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP: got %d, want 400", resp.StatusCode)
		}
	}
	for _, file := range []string{"secrets/pepper", "secrets/admin-token", "secrets/database-url-catalog-1",
		"config/edge-gateway-1.yaml", "certs/router-key.pem", "log/router-1.log"} {
		info, err := os.Stat(f.Path(filepath.FromSlash(file)))
		if err != nil {
			t.Errorf("%s: got the error %v, want none", file, err)
		} else if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s: info.Mode().Perm(): got %v, want 0o600", file, got)
		}
	}
}

func TestOneFleetHasAFolder(t *testing.T) {
	f := begin(t, onGivenDatabase(t))
	if got := f.Pid("postgres-1"); got != 0 {
		t.Errorf(`a fleet with a database: f.Pid("postgres-1"): got %d, want 0`, got)
	} else if got := f.DatabaseURL(); got != f.cfg.DatabaseURL {
		t.Errorf("a fleet with a database: f.DatabaseURL(): got %q, want %q", got, f.cfg.DatabaseURL)
	}
	if _, err := Start(t.Context(), f.cfg); err == nil {
		t.Error("a second fleet in the folder: got no error, want one")
	} else if !strings.Contains(err.Error(), "in use") {
		t.Errorf(`a second fleet in the folder: got the error %q, want "in use" in it`, err)
	}
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	skipShort(t)
	bin, err := Build(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dir: t.TempDir(), BinDir: bin, DatabaseURL: "postgres://svc@127.0.0.1:1/none?sslmode=disable"}
	if _, err := Start(t.Context(), cfg); err == nil {
		t.Error("a fleet without a database: got no error, want one")
	} else if !strings.Contains(err.Error(), "connect to make logins") {
		t.Errorf(`a fleet without a database: got the error %q, want "connect to make logins" in it`, err)
	}
	for _, wrong := range []Config{
		{}, {Dir: "x", BinDir: "y", Replicas: map[string]int{"verifiers": 1}},
		{Dir: "x", BinDir: "y", Replicas: map[string]int{Hub: MaxReplicas + 1}},
		{Dir: "x", BinDir: "y", Replicas: map[string]int{Hub: 0}}, {Dir: "x", BinDir: "y", Replicas: map[string]int{NATS: 2}},
		{Dir: "x", BinDir: "y", References: 2},
	} {
		if _, err := Start(t.Context(), wrong); err == nil {
			t.Errorf("checking %+v: got no error, want one", wrong)
		} else if errors.Is(err, os.ErrNotExist) {
			t.Errorf("checking %+v: got the error %v, want any but %v", wrong, err, os.ErrNotExist)
		}
	}
}
