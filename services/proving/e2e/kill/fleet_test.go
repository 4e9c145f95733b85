package kill

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/crash/crashtest"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// programs are the fleet's programs by victim.
var programs = map[victim]string{
	gateway: fleet.Gateway, routerVictim: fleet.Router, hub: fleet.Hub, hubLost: fleet.Hub, billing: fleet.Billing,
	settlementVictim: fleet.Settlement, catalogVictim: fleet.Catalog,
	nats: fleet.NATS, natsWiped: fleet.NATS, postgres: fleet.Postgres,
}

// lease is the hold_lease of this fleet.
const lease = 6 * time.Second

// settings shorten to seconds what takes minutes in production: leases, reviews, and the
// pauses between retries. A lease is longer than a killed billing-ledger needs to come
// back on a busy machine, because the gateway ends an answer whose lease is over.
var settings = map[string]map[string]any{
	fleet.Billing: {"billing": map[string]any{
		"hold_lease": lease.String(), "orphan_after": "5s", "expire_interval": "500ms", "expire_grace": "1s",
	}},
	fleet.Hub: {"hub": map[string]any{"resettle_after": "600ms"}},
	// What a settlement had when it died comes again only after half a minute, so its
	// line is made of what billing-ledger has settled.
	fleet.Settlement: {"settlement": map[string]any{"reconcile_interval": "3s", "fill_after": "2s"}},
}

// fleetRig is a fleet, with agents of its own: each has its own engine.
type fleetRig struct {
	fleet *fleet.Fleet
	m     *trial.Market
	seats []*seat
	// dead are the processes to start again. stray are agents that have lost their hub,
	// and would come back in their own time.
	dead  []string
	stray []*seat
}

// bases are the public APIs of the gateways.
func (r *fleetRig) bases() []string { return r.fleet.Gateways() }

// kill kills a victim and returns once it is dead. way is where the request runs, pid the
// process at the point; with all, every replica is killed.
func (r *fleetRig) kill(t *testing.T, v victim, way path, pid int, all bool) {
	t.Helper()
	if v == agent {
		r.seats[way.provider].agent.kill(t)
		r.stray = append(r.stray, r.seats[way.provider])
		return
	}
	for _, name := range r.chosen(v, way, pid, all) {
		if err := r.fleet.Kill(name); err != nil {
			t.Fatal(err)
		}
		r.dead = append(r.dead, name)
	}
	if v == hub || v == hubLost {
		r.stray = append(r.stray, r.seats[way.provider])
	}
	if v == hubLost {
		if err := os.RemoveAll(r.fleet.JournalDir(r.dead[0])); err != nil {
			t.Fatal(err)
		}
	}
	if v == natsWiped {
		if err := r.fleet.WipeNATS(); err != nil {
			t.Fatal(err)
		}
	}
}

// chosen are the processes to kill: the gateway and the hub of the request; of the others
// all, or the one at the point, or any.
func (r *fleetRig) chosen(v victim, way path, pid int, all bool) []string {
	names := r.fleet.Replicas(programs[v])
	switch v {
	case gateway:
		return names[way.gateway : way.gateway+1]
	case hub, hubLost:
		return names[way.provider : way.provider+1]
	default:
	}
	if all {
		return names
	}
	for i, name := range names {
		if r.fleet.Pid(name) == pid {
			return names[i : i+1]
		}
	}
	return names[way.gateway%len(names):][:1]
}

// restore starts what was killed and returns once everything can serve. It also starts
// agents again that had lost their hub, because these wait ever longer before they dial
// again.
func (r *fleetRig) restore(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	dead, stray := r.dead, r.stray
	r.dead, r.stray = nil, nil
	for _, name := range dead {
		if err := r.fleet.Launch(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.fleet.WaitReady(ctx, dead...); err != nil {
		t.Fatal(err)
	}
	for _, s := range stray {
		s.agent.kill(t)
		s.agent.start(t)
	}
	if len(dead) > 0 {
		// A process that had lost the database, NATS or a peer reports it for a while.
		if err := r.fleet.WaitReady(ctx, r.services()...); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range stray {
		r.m.WaitOffered(t, plainModel, s.id)
	}
}

// unsettled is the hub's gauge of usage that waits for billing-ledger or
// settlement.
var unsettled = regexp.MustCompile(`(?m)^svc_provider_hub_unsettled(?:\{[^}]*\})? (\S+)$`)

// idle reports whether no hub has usage that waits.
func (r *fleetRig) idle(t *testing.T) bool {
	t.Helper()
	for _, name := range r.fleet.Replicas(fleet.Hub) {
		_, _, body := trial.CallAt(t, r.fleet.AdminURL(name), http.MethodGet, "/metrics", "", "")
		found := unsettled.FindSubmatch(body)
		if found == nil {
			t.Fatalf("%s has no gauge of unsettled usage", name)
		}
		if string(found[1]) != "0" {
			return false
		}
	}
	return true
}

func (r *fleetRig) services() []string {
	var names []string
	for _, program := range fleet.Services() {
		names = append(names, r.fleet.Replicas(program)...)
	}
	return names
}

// startFleet runs a fleet with crash points until the test ends.
func startFleet(t *testing.T) *matrix {
	t.Helper()
	bin := trial.Programs(t, "crashpoints")
	points, err := crashtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := points.Close(); err != nil {
			t.Error(err)
		}
	})
	f, err := fleet.Start(t.Context(), fleet.Config{
		// A kill loses nothing that the kernel has, and a start that flushed every file would
		// outlast a lease on a busy disk.
		Dir: t.TempDir(), BinDir: bin, FsyncOff: true,
		Replicas: map[string]int{fleet.Agent: 0, fleet.Engine: 0, fleet.Verifier: 1, fleet.Signer: 1},
		LogLevel: "warn", Settings: settings, Environ: []string{crash.EnvSocket + "=" + points.Socket()},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &fleetRig{fleet: f}
	t.Cleanup(func() { r.stop(t) })
	token, err := f.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	r.m = trial.Attach(map[string]string{
		"SVC_BASE_URL": f.Gateways()[0], "SVC_WS_URL": f.Hubs()[0], "SVC_ADMIN_URL": f.Operators()[0],
		"SVC_ADMIN_TOKEN": token, "SVC_DATABASE_URL": f.DatabaseURL(),
	})
	pool, err := pgxpool.New(t.Context(), f.DatabaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	m := &matrix{rig: r, points: points, ledger: ledger{pool}, client: newClient(), bin: bin,
		took: map[victim]time.Duration{}, outcomes: outcomes{}}
	for _, model := range []string{plainModel, longModel} {
		r.m.PutModel(t, model)
	}
	for i, hubURL := range f.Hubs() {
		r.seats = append(r.seats, sit(t, r.m, filepath.Join(bin, fleet.Agent), hubURL, fmt.Sprint("provider-", i+1)))
	}
	m.seats = r.seats
	account, key := r.m.Consumer(t, "100")
	r.m.Unlimit(t, account)
	m.steady = key
	return m
}

// sit makes a provider with an engine and an agent.
func sit(t *testing.T, m *trial.Market, program, hubURL, name string) *seat {
	t.Helper()
	s := &seat{engine: fakeengine.New(t)}
	for _, model := range []string{plainModel, longModel} {
		s.engine.Script(model, fakeengine.Behaviour{})
	}
	p := m.Provider(t, name)
	s.id = p.ID
	s.agent = newAgent(t, program, hubURL, p.Key, s.engine.URL, plainModel, longModel)
	m.WaitOffered(t, plainModel, s.id)
	return s
}

// stop ends the fleet, and shows its processes' output if the test failed.
func (r *fleetRig) stop(t *testing.T) {
	if t.Failed() {
		for _, name := range r.fleet.Names() {
			t.Logf("%s:\n%s", name, r.fleet.LogTail(name, logTail))
		}
		for i, s := range r.seats {
			t.Logf("agent %d:\n%s", i+1, trial.Tail(s.agent.log.Text(), logTail))
		}
	}
	for _, exit := range r.fleet.Exits() {
		t.Errorf("%s ended by itself: %s\n%s", exit.Name, exit.Reason, exit.Log)
	}
	ctx, cancel := context.WithTimeout(context.Background(), trial.Patience)
	defer cancel()
	for _, name := range r.services() {
		if err := r.fleet.Kill(name); err != nil { // their state does not matter any more
			t.Error(err)
		}
	}
	if err := r.fleet.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// balanced fails the test unless the verifier finds no drift and settlement's
// lines equal the ledger's accruals.
func balanced(t *testing.T, m *matrix) {
	t.Helper()
	verify := exec.CommandContext(t.Context(), filepath.Join(m.bin, fleet.Billing), "verify")
	verify.Env = append(os.Environ(), "DATABASE_URL="+m.rig.m.Env["SVC_DATABASE_URL"])
	out, err := verify.CombinedOutput()
	if err != nil {
		t.Errorf("verify: got the error %v, want none", err)
	} else if !strings.Contains(string(out), "drift: 0") {
		t.Errorf(`verify: out: got %q, want "drift: 0" in it`, string(out))
	}
	var report map[string]any
	trial.Until(t, "settlement has heard of all that billing-ledger settled", func() bool {
		report = m.rig.m.Reconciliation(t)
		return report["equal"] == true
	})
	if report["lines_usd_str"] != report["accruals_usd_str"] {
		t.Errorf(`reconciliation: report["lines_usd_str"]: got %v, want %v`, report["lines_usd_str"],
			report["accruals_usd_str"])
	} else if report["lines_usd_str"] == "0.00" {
		t.Error(`reconciliation: report["lines_usd_str"]: got "0.00", want any but "0.00"`)
	}
}

// logTail is how much of each log is shown after a failure, in bytes.
const logTail = 4 << 10

// rounds is how often each cell is run, each time with other choices. Each half of a
// round's points has a fleet of its own.
const (
	rounds = 2
	halves = 2
)

// TestFleetSurvivesAKillAtEveryPoint is the matrix: every victim at every
// point. All fleets run at once, because most of the time goes by waiting. One
// cell is run alone by its name, which a failure tells:
//
//	go test -run 'AtEveryPoint$/^round0$/^half0$/^hub.final.synced$/^hub$' ./services/proving/e2e/kill
func TestFleetSurvivesAKillAtEveryPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a fleet hundreds of times")
	}
	for round := range rounds {
		t.Run(fmt.Sprint("round", round), func(t *testing.T) {
			t.Parallel()
			for half := range halves {
				t.Run(fmt.Sprint("half", half), func(t *testing.T) {
					t.Parallel()
					m := startFleet(t)
					began := time.Now()
					m.cells(t, dealt(half), round)
					t.Logf("all cells took %v: %v\n%v", time.Since(began).Round(time.Second), m.took, m.outcomes)
					balanced(t, m)
				})
			}
		})
	}
}
