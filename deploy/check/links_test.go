package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	linksDir = "deploy/check/links"
	ours     = "svc.internal/"
)

// bans are the packages that few programs or none may link, each with those
// below it. The committed lists follow the code; the bans do not, so -update
// cannot allow what is banned here. A new program may link none of them.
var bans = []struct {
	path string
	may  []string // the programs that may link it
}{
	{path: "github.com/nats-io/nats-server", may: []string{"standalone"}},
	{path: "svc.internal/pkg/bus/natsserver", may: []string{"standalone"}},
	{path: "svc.internal/pkg/pg/pgserver", may: []string{"standalone", "fleet", "fleetfiles", "chaos"}},
	{path: "github.com/jackc/pgx", may: storing},
	{path: "github.com/pressly/goose", may: storing},
	{path: "svc.internal/pkg/pg", may: storing},
	{path: "github.com/nats-io", may: append([]string{"sim"}, running...)},
	{path: "svc.internal/pkg/node", may: running},
	{path: "github.com/ethereum/go-ethereum", may: onChains},
	{path: "github.com/aws", may: []string{"chain-signer", "standalone"}},
	{path: "svc.internal/services/proving", may: []string{"auditor", "chaos", "devcerts", "fleet", "fleetfiles", "sim",
		"tinylm"}},
	{path: "testing"},
	{path: "svc.internal/pkg/bustest"},
	{path: "svc.internal/pkg/pgtest"},
	{path: "svc.internal/pkg/fakeagent"},
	{path: "svc.internal/pkg/fakeengine"},
	{path: "svc.internal/pkg/oidctest"},
	{path: "svc.internal/pkg/crash/crashtest", may: []string{"chaos"}},
}

var (
	// storing are the programs that keep tables, and the programs that read them or make their logins.
	storing = []string{"billing-ledger", "catalog", "provider-hub", "settlement", "chain-signer", "verifier", "standalone",
		"chaos", "fleet", "fleetfiles"}
	// onChains are the programs that read chains and send to them, and those that configure or audit settlement.
	// go-ethereum is large.
	onChains = []string{"settlement", "chain-signer", "standalone", "fleet", "chaos"}
	// running are the programs that run a service, and the programs that configure one.
	running = append([]string{"devcerts", "edge-gateway", "router"}, storing...)
)

// auditorLinks is all that the auditor may link beside the standard library: it
// judges the services, so it shares no code with them.
const auditorLinks = "svc.internal/services/proving/internal/auditor"

// banned returns those of the packages that the program must not link.
func banned(program string, packages []string) []string {
	var found []string
	for _, p := range packages {
		for _, ban := range bans {
			if (p == ban.path || strings.HasPrefix(p, ban.path+"/")) && !slices.Contains(ban.may, program) {
				found = append(found, p)
				break
			}
		}
		standard := !strings.Contains(strings.SplitN(p, "/", 2)[0], ".")
		if program == "auditor" && !standard && p != auditorLinks {
			found = append(found, p)
		}
	}
	return slices.Compact(found)
}

// links is what one program links.
type links struct {
	packages []string          // import paths, of the standard library too
	modules  map[string]string // the module of each package that has one
}

// linked is what each program links, by the program's name. Go is asked once.
var linked = sync.OnceValues(func() (map[string]links, error) {
	commands, err := filepath.Glob(filepath.Join(root, "services", "*", "cmd", "*"))
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-deps", "-json=ImportPath,Name,Deps,Module"}
	for _, dir := range commands {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, err
		}
		args = append(args, "./"+filepath.ToSlash(rel))
	}
	cmd := exec.CommandContext(context.Background(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-mod=readonly", "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, failure.String())
	}
	all, modules := map[string]links{}, map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p struct {
			ImportPath, Name string
			Deps             []string
			Module           *struct{ Path string }
		}
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("read what Go lists: %w", err)
		}
		if p.Module != nil {
			modules[p.ImportPath] = p.Module.Path
		}
		if p.Name == "main" {
			all[path.Base(p.ImportPath)] = links{packages: p.Deps, modules: modules}
		}
	}
	if len(all) != len(commands) {
		return nil, fmt.Errorf("got %d programs of %d folders: two have one name, or one is no program",
			len(all), len(commands))
	}
	return all, nil
})

// list is the text of the program's file: the modules of others, then the
// packages of this repository.
func (l links) list() string {
	var foreign, own []string
	for _, p := range l.packages {
		if rest, mine := strings.CutPrefix(p, ours); mine {
			own = append(own, rest)
		} else if module := l.modules[p]; module != "" {
			foreign = append(foreign, module)
		}
	}
	slices.Sort(foreign)
	slices.Sort(own)
	return strings.Join(append(slices.Compact(foreign), own...), "\n") + "\n"
}

// TestEveryProgramLinksWhatIsListed holds what each program links to the
// committed lists, so that a new dependency is seen in review.
func TestEveryProgramLinksWhatIsListed(t *testing.T) {
	programs, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range programs {
		file := filepath.Join(root, linksDir, name+".txt")
		got := l.list()
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v: run (cd deploy/check && GOWORK=off go test -run Links -update .)", err)
			continue
		}
		linking, listed := strings.Fields(got), strings.Fields(string(text))
		for _, line := range linking {
			if !slices.Contains(listed, line) {
				t.Errorf("%s links %s, and %s/%s.txt lists: got %q, want %q in it", name, line, linksDir, name, listed, line)
			}
		}
		for _, line := range listed {
			if !slices.Contains(linking, line) {
				t.Errorf("%s, with %s in %s/%s.txt, links: got %q, want %q in it", name, line, linksDir, name, linking, line)
			}
		}
	}
	for _, file := range files(t, ".txt") {
		name, ok := strings.CutPrefix(file, linksDir+"/")
		if _, exists := programs[strings.TrimSuffix(name, ".txt")]; ok && !exists {
			t.Errorf("%s is the list of no program", file)
		}
	}
}

// TestNoProgramLinksWhatItMustNot is the part that -update cannot loosen.
func TestNoProgramLinksWhatItMustNot(t *testing.T) {
	programs, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range programs {
		for _, p := range banned(name, l.packages) {
			t.Errorf("%s links %s, which it must not", name, p)
		}
	}
}

func TestAPlantedLinkIsFound(t *testing.T) {
	for _, test := range []struct {
		program, link string
		want          bool
	}{
		{"router", "github.com/jackc/pgx/v5", true},
		{"edge-gateway", "github.com/pressly/goose/v3/internal/dialect", true},
		{"edge-gateway", "svc.internal/pkg/pg", true},
		{"edge-gateway", "svc.internal/pkg/pgx", false},
		{"catalog", "github.com/jackc/pgx/v5", false},
		{"catalog", "github.com/nats-io/nats-server/v2/server", true},
		{"catalog", "github.com/nats-io/nats.go", false},
		{"fleet", "github.com/nats-io/nats-server/v2/server", true},
		{"standalone", "github.com/nats-io/nats-server/v2/server", false},
		{"standalone", "svc.internal/services/proving/internal/fleet", true},
		{"sim", "svc.internal/pkg/pg/pgserver", true},
		{"sim", "github.com/nats-io/nats.go", false},
		{"svc-agent", "svc.internal/pkg/node", true},
		{"svc-agent", "github.com/nats-io/nats.go", true},
		{"standalone", "testing", true},
		{"standalone", "testing/fstest", true},
		{"auditor", "svc.internal/pkg/money", true},
		{"auditor", "github.com/google/uuid", true},
		{"auditor", auditorLinks, false},
		{"auditor", "encoding/json", false},
		{"billing-ledger", "github.com/ethereum/go-ethereum/crypto", true},
		{"settlement", "github.com/ethereum/go-ethereum/crypto", false},
		{"settlement", "github.com/aws/aws-sdk-go-v2/service/kms", true},
		{"chain-signer", "github.com/aws/aws-sdk-go-v2/service/kms", false},
		{"a new program", "github.com/jackc/pgx/v5", true},
	} {
		if got := len(banned(test.program, []string{"fmt", test.link})) > 0; got != test.want {
			t.Errorf("%s links %s: got banned %v, want %v", test.program, test.link, got, test.want)
		}
	}
}
