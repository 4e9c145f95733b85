package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/standalone/internal/fleet"
	"svc.internal/services/standalone/internal/store"
	"svc.internal/services/standalone/internal/trial"
)

// journalAttempts is a journal of a size that the test fills many times.
const journalAttempts = 40

// serveMany sends several times as many requests as fit into a journal, each
// once the one before is settled by billing-ledger.
func serveMany(t *testing.T, m *trial.Market, model string) {
	t.Helper()
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	for n, hub := range m.WSURLs() {
		m.JoinAt(t, hub, fmt.Sprintf("steady-%d", n+1), engine.URL, model)
	}
	account, key := m.Consumer(t, "10")
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits", `{"requests_per_minute":-1,"concurrent_requests":0}`)
	const batch = journalAttempts / 4
	for n := range 3 * len(m.WSURLs()) * journalAttempts {
		if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, "")); status != http.StatusOK {
			t.Fatalf("after %d requests with settlement away: got %d %s, want 200", n, status, body)
		}
		if n%batch == batch-1 {
			trial.Until(t, "billing-ledger has settled what was served", func() bool {
				_, held := m.Balance(t, account)
				return held == "0.00"
			})
		}
	}
}

// A hub whose journal is full refuses requests. Usage stays there until
// billing-ledger has settled it, and settlement has no say in that.
func TestTheMarketGoesOnWhileSettlementCannotWrite(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", fmt.Sprint("SVC_HUB_JOURNAL_MAX_ATTEMPTS=", journalAttempts))
	books, err := store.Open(t.Context(), m.Env["SVC_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(books.Close)
	release, err := books.LockEarnings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	serveMany(t, m, "test/locked")
	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Balanced(t)
}

// What the stream loses meanwhile comes from the ledger.
func TestAFleetGoesOnWithoutSettlementAndItsLinesAreMadeUpFor(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a fleet")
	}
	t.Parallel() // it has a marketplace of its own
	m := trial.StartFleet(t, func(c *fleet.Config) {
		c.Settings = map[string]map[string]any{fleet.Hub: {"hub": map[string]any{"journal_max_attempts": journalAttempts}}}
	})
	f := m.Fleet()
	for _, name := range f.Replicas(fleet.Settlement) {
		if err := f.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	serveMany(t, m, "test/away")
	nats := f.Replicas(fleet.NATS)[0]
	if err := f.Kill(nats); err != nil {
		t.Fatal(err)
	}
	if err := f.WipeNATS(); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{nats}, f.Replicas(fleet.Settlement)...) {
		if err := f.Start(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	m.Balanced(t)
	if report := m.Admin(t, http.MethodGet, "/api/v1/admin/reconciliation", ""); report["filled"] == float64(0) {
		t.Errorf("got no filled lines in %v, want all that the wiped stream held", report)
	}
}
