package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"svc.internal/services/proving/internal/chart"
	"svc.internal/services/proving/internal/fleet"
)

const (
	// buildTimeout bounds the building of a fleet's programs.
	buildTimeout = 10 * time.Minute
	// fleetPatience bounds the start and the stop of a fleet.
	fleetPatience = 10 * time.Minute
)

// EnvBin names the variable with a folder of programs to use instead of building them;
// programs with build tags are beside it in <folder>-<tags>. EnvForm, standalone or
// fleet, chooses one form for Each. EnvRunning names the demo.env or fleet.env of a
// marketplace to use instead. EnvChart names what helm template has written for
// internal/chart/values.yaml: fleets then run by the chart.
const (
	EnvBin     = "SVC_BIN_DIR"
	EnvForm    = "SVC_E2E_FORM"
	EnvRunning = "SVC_E2E_ENV"
	EnvChart   = "SVC_E2E_CHART"
)

// StartFleet runs a marketplace as a fleet of separate processes until the test ends, on a
// PostgreSQL of its own: two of each service but one verifier, which asks nobody without
// references. There is no demo, no agent and no engine. Options change the configuration;
// where they ask for agents, the demo is seeded. A process that ends by itself fails the
// test. The test is skipped where EnvForm asks for the other form.
func StartFleet(t testing.TB, options ...func(*fleet.Config)) *Market {
	t.Helper()
	needFleet(t)
	m, err := startFleet(Dir(t), append([]func(*fleet.Config){func(c *fleet.Config) {
		c.Replicas = map[string]int{fleet.Agent: 0, fleet.Engine: 0, fleet.Verifier: 1, fleet.Signer: 1}
	}}, options...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.end(t) })
	return m
}

// Programs builds a fleet's programs with build tags, once for the test binary,
// and returns their folder, for Config.BinDir.
func Programs(t testing.TB, tags string) string {
	t.Helper()
	dir, err := programs.get(tags)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// needFleet skips a test on a fleet where only the single process is asked for.
func needFleet(t testing.TB) {
	t.Helper()
	if os.Getenv(EnvForm) == "standalone" {
		t.Skip("no fleet is asked for: SVC_E2E_FORM=standalone")
	}
}

func startFleet(dir string, options []func(*fleet.Config)) (m *Market, err error) {
	cfg := fleet.Config{Dir: dir, LogLevel: "warn", DrainDelay: 500 * time.Millisecond}
	for _, option := range options {
		option(&cfg)
	}
	if cfg.BinDir == "" {
		if cfg.BinDir, err = programs.get(""); err != nil {
			return nil, err
		}
	}
	if rendered := os.Getenv(EnvChart); rendered != "" {
		c, err := chart.Open(rendered, cfg.BinDir)
		if err != nil {
			return nil, err
		}
		c.Configure(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), fleetPatience)
	defer cancel()
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m, err = ofFleet(ctx, f, cfg.Replicas[fleet.Agent] != 0 || cfg.Replicas == nil)
	if err != nil {
		return nil, fmt.Errorf("%w; %w", err, f.Stop(ctx))
	}
	return m, nil
}

// ofFleet is the market of a fleet, with a demo if wanted.
func ofFleet(ctx context.Context, f *fleet.Fleet, demo bool) (*Market, error) {
	token, err := f.AdminToken()
	if err != nil {
		return nil, err
	}
	bootstrap, err := f.BootstrapToken()
	if err != nil {
		return nil, err
	}
	m := &Market{fleet: f, bases: f.Gateways(), admins: f.Operators(), sockets: f.Hubs(), Env: map[string]string{
		"SVC_BASE_URL": f.Gateways()[0], "SVC_WS_URL": f.Hubs()[0], "SVC_ADMIN_URL": f.Operators()[0],
		"SVC_ADMIN_TOKEN": token, "SVC_DATABASE_URL": f.DatabaseURL(),
		"SVC_METRICS_URL": f.AdminURL(f.Replicas(fleet.Gateway)[0]) + "/metrics",
	}, staff: &staff{bootstrap: bootstrap}}
	m.stop = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), fleetPatience)
		defer cancel()
		return f.Stop(ctx)
	})
	if !demo {
		return m, nil
	}
	env, err := f.Seed(ctx)
	if err != nil {
		return nil, err
	}
	m.Env["SVC_API_KEY"], m.Env["SVC_MODEL"], m.Env["SVC_PROVIDER_KEY"] = env.APIKey, env.Model, env.ProviderKey
	return m, nil
}

// Fleet is the fleet of the market; nil for one process.
func (m *Market) Fleet() *fleet.Fleet { return m.fleet }

// end stops the fleet of a test and reports what went wrong in it.
func (m *Market) end(t testing.TB) {
	t.Helper()
	m.tellExits(t, 0)
	if err := m.Stop(); err != nil {
		t.Errorf("the fleet ended with %v", err)
	}
	m.showLogs(t)
}

// tellExits fails the test for processes that have ended by themselves, without the first
// skip of them.
func (m *Market) tellExits(t testing.TB, skip int) {
	t.Helper()
	for _, e := range m.fleet.Exits()[skip:] {
		t.Errorf("%s (pid %d) ended by itself: %s\n%s", e.Name, e.Pid, e.Reason, Tail(e.Log, 4000))
	}
}

// showLogs shows the end of every log of a fleet whose test has failed.
func (m *Market) showLogs(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, name := range m.fleet.Names() {
		if text := m.fleet.LogTail(name, 3000); text != "" {
			t.Logf("the log of %s ends:\n%s", name, text)
		}
	}
}

// programs are the fleet's programs, built once for a test binary and set of
// build tags.
var programs builds

type builds struct {
	mu   sync.Mutex
	dirs map[string]string
}

// given is the folder that EnvBin names for build tags; empty for none.
func given(tags string) string {
	dir := os.Getenv(EnvBin)
	if dir == "" || tags == "" {
		return dir
	}
	return filepath.Clean(dir) + "-" + tags
}

// built is a folder of programs that were built, of those without build tags first; empty while there is none.
func (b *builds) built() string {
	if dir := given(""); dir != "" {
		return dir
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if dir, ok := b.dirs[""]; ok {
		return dir
	}
	for _, dir := range b.dirs {
		return dir
	}
	return ""
}

func (b *builds) get(tags string) (string, error) {
	if dir := given(tags); dir != "" {
		return dir, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if dir, ok := b.dirs[tags]; ok {
		return dir, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	dir, err := fleet.Build(ctx, tags)
	if err != nil {
		return "", err
	}
	if b.dirs == nil {
		b.dirs = map[string]string{}
	}
	b.dirs[tags] = dir
	return dir, nil
}
