package presence_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/gate"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/provider/providertest"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fleet is hubs on one database, and one provider.
type fleet struct {
	*testing.T
	clock    *clock.Manual
	pool     *pgxpool.Pool
	tables   *store.Store
	accounts *provider.Directory
	account  provider.Account
	key      string
	hubs     map[*hub]bool
}

// hub is one life of one hub.
type hub struct {
	fleet    *fleet
	book     *mortal
	recorder *presence.Recorder
	registry *registry.Registry
	server   *gate.Gate
	web      *httptest.Server
}

// mortal is a book that a hub can lose.
type mortal struct {
	presence.Store
	away atomic.Bool
}

func (m *mortal) Record(ctx context.Context, run presence.Run, page presence.Page) error {
	if m.away.Load() {
		return errors.New("the database is away")
	}
	return m.Store.Record(ctx, run, page)
}

func setup(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, clock: clock.NewManual(start), hubs: map[*hub]bool{}}
	f.pool = pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	f.tables = store.New(f.pool)
	f.accounts = provider.NewDirectory(f.tables, provider.SecretsOf(apikey.Pepper{1}), provider.Site{Domain: "svc.test",
		URI: "wss://svc.test/ws", ChainID: 1}, f.clock, rand.Reader)
	var err error
	f.account, err = f.accounts.Create(t.Context(), "Farm", "", "")
	f.must(err)
	_, f.key, err = f.accounts.IssueKey(t.Context(), f.account.ID, "")
	f.must(err)
	return f
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// hub begins a life.
func (f *fleet) hub(id string) *hub {
	f.Helper()
	quiet := slog.New(slog.DiscardHandler)
	h := &hub{fleet: f, book: &mortal{Store: f.tables}}
	h.recorder = presence.NewRecorder(id, h.book, f.clock, quiet)
	h.registry = registry.New(f.accounts, h.recorder, nil, 0)
	h.server = gate.New(gate.Config{Session: session.Config{RefuseHold: 10 * time.Millisecond}},
		gate.Deps{Registrar: h.registry, Clock: f.clock, Log: quiet, Counts: &gate.Counts{}})
	h.server.Accept()
	h.web = httptest.NewServer(h.server)
	f.Cleanup(h.cut)
	f.hubs[h] = true
	h.write()
	return h
}

func (h *hub) write() {
	h.fleet.Helper()
	h.fleet.must(h.recorder.Write(h.fleet.Context(), false))
}

// cut closes every socket.
func (h *hub) cut() {
	if err := h.server.Close(context.Background()); err != nil {
		h.fleet.Error(err)
	}
	h.web.Close()
}

// stop ends a life as SIGTERM does.
func (h *hub) stop() {
	h.recorder.Stopping()
	h.cut()
	h.fleet.must(h.recorder.Write(h.fleet.Context(), true))
	delete(h.fleet.hubs, h)
}

// kill ends a life as SIGKILL does: nothing more is written.
func (h *hub) kill() {
	h.book.away.Store(true)
	h.cut()
	delete(h.fleet.hubs, h)
}

// pass lets time go by, for the database too; hubs that live say so.
func (f *fleet) pass(d time.Duration) {
	f.Helper()
	f.clock.Advance(d)
	_, err := f.pool.Exec(f.Context(), `UPDATE hub_run SET heard = heard - $1::interval`, d)
	f.must(err)
	for h := range f.hubs {
		if !h.book.away.Load() {
			h.write()
		}
	}
}

func (h *hub) dial(node string) *fakeagent.Agent {
	h.fleet.Helper()
	a, err := fakeagent.Dial(h.fleet.Context(), "ws"+strings.TrimPrefix(h.web.URL, "http")+"/ws",
		fakeagent.Options{Key: h.fleet.key, NodeID: node, Models: []string{"m"}})
	h.fleet.must(err)
	h.fleet.Cleanup(a.Close)
	return a
}

// leave has an agent hang up, and waits until the hub knows.
func (h *hub) leave(a *fakeagent.Agent) {
	h.fleet.Helper()
	before := h.registry.Len()
	a.Kill()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for deadline := time.After(time.Minute); h.registry.Len() == before; {
		select {
		case <-again.C:
		case <-deadline:
			h.fleet.Fatal("the hub does not notice")
		}
	}
	// What is off the registry is told to the recorder at once thereafter.
	for deadline := time.After(time.Minute); h.recorder.Pending() == 0; {
		select {
		case <-again.C:
		case <-deadline:
			h.fleet.Fatal("the recorder does not hear")
		}
	}
}

// uptime is what the provider is told, in percent of the last day, measured now.
func (f *fleet) uptime() float64 {
	f.Helper()
	_, err := f.pool.Exec(f.Context(), `UPDATE provider SET uptime_24h = NULL, uptime_30d = NULL`)
	f.must(err)
	d, err := f.accounts.Detail(f.Context(), f.account.ID)
	f.must(err)
	if d.Uptime24h == nil {
		return -1
	}
	return 100 * *d.Uptime24h
}

func (f *fleet) sweep() {
	f.Helper()
	_, err := f.accounts.Sweep(f.Context())
	f.must(err)
}

func (f *fleet) wantUptime(what string, want float64) {
	f.Helper()
	if got := f.uptime(); math.Abs(got-want) > 0.001 {
		f.Errorf("%s: up %.4f %%, want %.4f %%", what, got, want)
	}
}

// open lists what stands in the record, and how it ended otherwise.
func (f *fleet) endings() string {
	f.Helper()
	rows, err := f.pool.Query(f.Context(),
		`SELECT node_id, coalesce(ended_by, 'open') FROM presence_interval ORDER BY epoch`)
	f.must(err)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var node, by string
		f.must(rows.Scan(&node, &by))
		all = append(all, node+" "+by)
	}
	f.must(rows.Err())
	return strings.Join(all, ", ")
}

func TestAHubThatIsStoppedCostsNoUptime(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	h.dial("node-0001")
	f.pass(10 * time.Hour)
	f.wantUptime("before", 100)
	h.stop()
	f.pass(2 * time.Minute)
	f.wantUptime("while no hub runs", 100)
	h = f.hub("hub-a")
	f.pass(time.Minute)
	h.dial("node-0001")
	f.pass(3 * time.Hour)
	f.wantUptime("after", 100)
	if got := f.endings(); got != "node-0001 platform, node-0001 open" {
		t.Errorf(`f.endings(): got %q, want "node-0001 platform, node-0001 open"`, got)
	}
}

func TestANodeThatHangsUpWhileItsHubDrainsIsNotAway(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h, other := f.hub("hub-a"), f.hub("hub-b")
	a := h.dial("node-0001")
	f.pass(time.Hour)
	h.recorder.Stopping()
	h.leave(a)
	f.pass(20 * time.Second)
	other.dial("node-0001")
	f.pass(time.Hour)
	f.wantUptime("after", 100)
}

func TestAHubThatIsKilledCostsNoUptime(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h, other := f.hub("hub-a"), f.hub("hub-b")
	h.dial("node-0001")
	f.pass(10 * time.Hour)
	f.clock.Advance(9 * time.Second) // what the hub has not said is lost
	h.kill()
	f.pass(40 * time.Second)
	f.sweep()
	if got := f.endings(); got != "node-0001 platform" {
		t.Errorf(`ended by the other hub, of what was left open: got %q, want "node-0001 platform"`, got)
	}
	if d, err := f.accounts.Detail(t.Context(), f.account.ID); err != nil {
		t.Errorf("online: got the error %v, want none", err)
	} else if d.Online {
		t.Error("d.Online: got true, want false")
	}
	other.dial("node-0001")
	f.pass(13 * time.Hour)
	f.wantUptime("after", 100)
}

func TestAHubThatIsKilledAndComesBackAtOnceEndsItsEarlierLife(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	h.dial("node-0001")
	f.pass(time.Hour)
	h.kill()
	f.pass(3 * time.Second)
	h = f.hub("hub-a")
	if got := f.endings(); got != "node-0001 platform" {
		t.Errorf(`after the restart: got %q, want "node-0001 platform"`, got)
	}
	h.dial("node-0001")
	f.pass(time.Hour)
	f.wantUptime("after", 100)
}

func TestAnHourWithoutAnyHubIsNobodysDowntime(t *testing.T) {
	t.Parallel()
	f := setup(t)
	one, two := f.hub("hub-a"), f.hub("hub-b")
	one.dial("node-0001")
	two.dial("node-0002")
	f.pass(5 * time.Hour)
	one.kill()
	two.kill()
	f.pass(time.Hour)
	one = f.hub("hub-a")
	f.sweep()
	f.pass(4 * time.Minute)
	one.dial("node-0001")
	f.pass(5 * time.Hour)
	f.wantUptime("back in time", 100)
	if got := f.endings(); got != "node-0001 platform, node-0002 platform, node-0001 open" {
		t.Errorf(`f.endings(): got %q, want "node-0001 platform, node-0002 platform, node-0001 open"`, got)
	}
}

func TestItsOwnAbsenceIsAProvidersDowntime(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	a := h.dial("node-0001")
	f.pass(12 * time.Hour)
	h.leave(a)
	f.pass(6 * time.Hour)
	h.dial("node-0001")
	f.pass(6 * time.Hour)
	f.wantUptime("away for 6 of 24 hours", 75)
	if got := f.endings(); got != "node-0001 provider, node-0001 open" {
		t.Errorf(`f.endings(): got %q, want "node-0001 provider, node-0001 open"`, got)
	}
	// A restart in the midst of its absence excuses no more than the grace.
	f.pass(18 * time.Hour) // the window begins where it left; 12 h of it are forgotten
	f.wantUptime("the absence has left the window", 100)
}

func TestANodeThatDoesNotComeBackAfterARestartIsAwayAfterTheGrace(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	h.dial("node-0001")
	f.pass(12 * time.Hour)
	h.stop()
	h = f.hub("hub-a")
	f.pass(12 * time.Hour)
	day := (24 * time.Hour).Minutes()
	f.wantUptime("away", 100*(day/2)/(day-5))
	_ = h
}

func TestAHubThatWasTakenForDeadOpensAgainWhatItHolds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	f.hub("hub-b")
	a := h.dial("node-0001")
	gone := h.dial("node-0002")
	f.pass(time.Hour)
	h.book.away.Store(true)
	f.pass(10 * time.Minute)
	if err := h.recorder.Write(t.Context(), false); err == nil {
		t.Fatal("a hub without its database writes")
	}
	h.leave(gone)
	f.sweep()
	if got := f.endings(); got != "node-0001 platform, node-0002 platform" {
		t.Errorf(`taken for dead: got %q, want "node-0001 platform, node-0002 platform"`, got)
	}
	h.book.away.Store(false)
	f.pass(time.Minute)
	if got := f.endings(); got != "node-0001 open, node-0002 provider" {
		t.Errorf(`back again: got %q, want "node-0001 open, node-0002 provider"`, got)
	}
	f.wantUptime("it was connected all the time", 100)
	h.leave(a)
	f.pass(71 * time.Minute)
	f.wantUptime("and then away for as long", 50)
}

func TestWhatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	h.book.away.Store(true)
	a := h.dial("node-0001")
	f.pass(time.Minute)
	for range 2 {
		if err := h.recorder.Write(t.Context(), false); err == nil {
			t.Fatal("written")
		}
	}
	h.leave(a)
	h.dial("node-0001")
	h.book.away.Store(false)
	f.pass(time.Minute)
	if got := f.endings(); got != "node-0001 provider, node-0001 open" {
		t.Errorf(`f.endings(): got %q, want "node-0001 provider, node-0001 open"`, got)
	} else if h.recorder.Pending() != 0 {
		t.Errorf("h.recorder.Pending(): got %d, want 0", h.recorder.Pending())
	}
	d, err := f.accounts.Detail(t.Context(), f.account.ID)
	f.must(err)
	if len(d.Nodes) != 1 || !d.Nodes[0].Online || d.Nodes[0].Dialect != "v2" || !d.Online {
		t.Errorf("nodes %+v", d.Nodes)
	}
}

func TestHostile10_TwoMachinesWithOneNodeIDAreNoticed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	one, two := f.hub("hub-a"), f.hub("hub-b")
	warning := func() string {
		d, err := f.accounts.Detail(t.Context(), f.account.ID)
		f.must(err)
		return d.Show(f.clock.Now(), time.Time{}).Warning
	}
	one.dial("node-0001")
	one.dial("node-0001")
	f.pass(time.Second)
	if w := warning(); w != "" {
		t.Errorf(`after one reconnection: got %q, want ""`, w)
	}
	// And across hubs, of which the other tells.
	for range 2 {
		a := two.dial("node-0001")
		one.registry.Supersede(f.account.ID, "node-0001", a.Epoch())
		b := one.dial("node-0001")
		two.registry.Supersede(f.account.ID, "node-0001", b.Epoch())
		f.pass(time.Second)
	}
	if w := warning(); !strings.Contains(w, "node-0001") {
		t.Errorf(`warning: got %q, want "node-0001" in it`, w)
	} else if !strings.Contains(w, "5 times") {
		t.Errorf(`warning: got %q, want "5 times" in it`, w)
	}
	f.pass(2 * time.Hour)
	if w := warning(); w != "" {
		t.Errorf(`two hours later: got %q, want ""`, w)
	}
}

func TestProbationIsJudgedByWhatWasMeasured(t *testing.T) {
	t.Parallel()
	const half = 12 * time.Hour
	cases := map[string]struct {
		up   time.Duration // connected at first, and then away
		want provider.Status
		what string
	}{
		"exactly half": {half, provider.Active, provider.ProbationPassed},
		"a bit less":   {half - time.Second, provider.Pending, string(provider.FailProbation)},
		"never":        {0, provider.Pending, string(provider.FailProbation)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			h := f.hub("hub-a")
			providertest.Activate(t, f.accounts, f.account.ID, f.accounts.Now())
			if c.up > 0 {
				a := h.dial("node-0001")
				f.pass(c.up)
				h.leave(a)
			}
			f.pass(24*time.Hour - c.up - time.Second)
			f.sweep()
			if a, err := f.accounts.Get(t.Context(), f.account.ID); err != nil {
				t.Errorf("judged too early: got the error %v, want none", err)
			} else if !a.InProbation() {
				t.Errorf("judged too early: a.InProbation(): got false, want true, with %+v", a)
			}
			f.pass(time.Second)
			for range 2 {
				f.sweep()
			}
			a, err := f.accounts.Get(t.Context(), f.account.ID)
			if err != nil || a.Status != c.want || a.InProbation() {
				t.Errorf("%+v, %v", a, err)
			}
			history, err := f.accounts.History(t.Context(), a.ID, 1, 2)
			if err != nil || !slices.ContainsFunc(history.List, func(e provider.Entry) bool {
				return e.What == c.what &&
					e.By == provider.ByPlatform
			}) {
				t.Errorf("history %+v, %v", history, err)
			}
		})
	}
}

func TestAProbationOfWhichNothingCanBeMeasuredIsPassed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	providertest.Activate(t, f.accounts, f.account.ID, f.accounts.Now())
	f.pass(25 * time.Hour) // without any hub
	f.sweep()
	if a, err := f.accounts.Get(t.Context(), f.account.ID); err != nil || a.Status != provider.Active || a.InProbation() {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestOldPresenceIsForgotten(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	a := h.dial("node-0001")
	h.dial("node-0002")
	f.pass(time.Hour)
	h.leave(a)
	f.pass(36 * 24 * time.Hour)
	f.sweep()
	if got := f.endings(); got != "node-0002 open" {
		t.Errorf(`f.endings(): got %q, want "node-0002 open"`, got)
	}
	d, err := f.accounts.Detail(t.Context(), f.account.ID)
	f.must(err)
	if len(d.Nodes) != 1 {
		t.Errorf("len(d.Nodes): got %d, want 1, in %+v", len(d.Nodes), d.Nodes)
	} else if d.Nodes[0].ID != "node-0002" {
		t.Errorf(`d.Nodes[0].ID: got %q, want "node-0002"`, d.Nodes[0].ID)
	}
	h.stop()
	f.pass(36 * 24 * time.Hour)
	f.hub("hub-a")
	f.sweep()
	var runs int
	f.must(f.pool.QueryRow(t.Context(), `SELECT count(*) FROM hub_run`).Scan(&runs))
	if got := f.endings(); got != "" || runs != 1 {
		t.Errorf("%s, %d runs", got, runs)
	}
}

func TestConnectionsWhoseEndWasForgottenAreEndedAllTheSame(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	h.dial("node-0001")
	h.dial("node-0002")
	h.write()
	var stands int64
	f.must(f.pool.QueryRow(t.Context(), `SELECT epoch FROM presence_interval WHERE node_id = 'node-0002'`).Scan(&stands))
	run := presence.Run{HubID: "hub-a", Incarnation: start.UnixMilli(), Started: start}
	f.must(f.tables.Record(t.Context(), run, presence.Page{At: f.clock.Now(), Lost: true,
		Live: func() []int64 { return []int64{stands} }}))
	if got := f.endings(); got != "node-0001 platform, node-0002 open" {
		t.Errorf(`f.endings(): got %q, want "node-0001 platform, node-0002 open"`, got)
	}
}

func TestANodeThatOnlyReconnectsDoesNotFillTheRecord(t *testing.T) {
	t.Parallel()
	f := setup(t)
	h := f.hub("hub-a")
	for range 5 {
		a := h.dial("node-0001")
		h.write()
		if got := f.endings(); got != "node-0001 open" {
			t.Errorf(`while it stands: got %q, want "node-0001 open"`, got)
		}
		f.pass(5*time.Second - time.Millisecond)
		h.leave(a)
		h.write()
	}
	if got := f.endings(); got != "" {
		t.Errorf(`after five times: got %q, want ""`, got)
	}
	a := h.dial("node-0001")
	f.pass(5 * time.Second)
	h.leave(a)
	h.write()
	if got := f.endings(); got != "node-0001 provider" {
		t.Errorf(`after five seconds: got %q, want "node-0001 provider"`, got)
	}
}

func TestMachinesOfAProviderAreBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for i := range 5 {
		page := presence.Page{At: f.clock.Now(), Live: func() []int64 { return nil }}
		for n := range 40 {
			page.Nodes = append(page.Nodes, presence.Seen{
				Machine: presence.Machine{Provider: f.account.ID, Node: fmt.Sprintf("node-%02d-%02d", i, n)}, Dialect: "v2",
				LastSeen: f.clock.Now(),
			})
		}
		f.must(f.tables.Record(t.Context(), presence.Run{HubID: "hub-a", Incarnation: 1, Started: start}, page))
		f.clock.Advance(time.Second)
	}
	var kept int
	f.must(f.pool.QueryRow(t.Context(), `SELECT count(*) FROM provider_node`).Scan(&kept))
	d, err := f.accounts.Detail(t.Context(), f.account.ID)
	if err != nil || kept != 128 || len(d.Nodes) != 64 || d.Nodes[0].ID != "node-04-00" {
		t.Errorf("%d kept, %d shown, first %+v, %v", kept, len(d.Nodes), d.Nodes[0], err)
	}
}
