package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/store"
	"svc.internal/services/proving/internal/trial"
)

// journalAttempts is the size of a journal that the test fills many times.
const journalAttempts = 40

// steady is a consumer who sends one request after the other.
type steady struct {
	*trial.Market
	model, account, key string
	served              int64
}

func newSteady(t *testing.T, m *trial.Market, model string) *steady {
	t.Helper()
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	for n, hub := range m.WSURLs() {
		m.JoinAt(t, hub, fmt.Sprintf("steady-%d", n+1), engine.URL, model)
	}
	s := &steady{Market: m, model: model}
	s.account, s.key = m.Consumer(t, "10")
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+s.account+"/limits",
		`{"requests_per_minute":-1,"concurrent_requests":0}`)
	return s
}

// serve sends so many times as many requests as fit into the journals, each once the one
// before is settled by billing-ledger.
func (s *steady) serve(t *testing.T, times int) {
	t.Helper()
	const batch = journalAttempts / 4
	for n := range times * len(s.WSURLs()) * journalAttempts {
		if status, _, body := s.Call(t, http.MethodPost, trial.ChatPath, s.key,
			trial.Chat(s.model, "")); status != http.StatusOK {
			t.Fatalf("after %d requests with settlement away: got %d %s, want 200", n, status, body)
		}
		s.served++
		if n%batch == batch-1 {
			trial.Until(t, "billing-ledger has settled what was served", func() bool {
				_, held := s.Balance(t, s.account)
				return held == "0.00"
			})
		}
	}
}

// alike fails the test unless settlement has a line of every served request, no other
// line, and each line agrees with the ledger.
func (s *steady) alike(t *testing.T, books *store.Databases) {
	t.Helper()
	s.Balanced(t)
	got, err := books.Compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Requests != s.served {
		t.Errorf("got %d requests settled, want the %d that were served", got.Requests, s.served)
	}
	for _, differing := range got.Differing[:min(len(got.Differing), 5)] {
		t.Errorf("%d differ: %s", len(got.Differing), differing)
	}
}

func openBooks(t *testing.T, m *trial.Market) *store.Databases {
	t.Helper()
	books, err := store.Open(t.Context(), m.Env["SVC_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(books.Close)
	return books
}

// A hub whose journal is full refuses requests. Usage stays in the journal until
// billing-ledger has settled it; settlement does not matter for that.
func TestTheMarketGoesOnWhileSettlementCannotWrite(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", fmt.Sprint("SVC_HUB_JOURNAL_MAX_ATTEMPTS=", journalAttempts))
	books := openBooks(t, m)
	release, err := books.LockEarnings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := newSteady(t, m, "test/locked")
	s.serve(t, 3)
	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.alike(t, books)
}

// The ledger has the usage that the stream loses meanwhile.
func TestAFleetGoesOnWithoutSettlementAndItsLinesAreMadeUpFor(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a fleet")
	}
	t.Parallel() // it has a marketplace of its own
	m := trial.StartFleet(t, func(c *fleet.Config) {
		c.Settings = map[string]map[string]any{fleet.Hub: {"hub": map[string]any{"journal_max_attempts": journalAttempts}}}
	})
	f := m.Fleet()
	books := openBooks(t, m)
	s := newSteady(t, m, "test/away")

	// The process runs, and its database does not let it write.
	release, err := books.LockEarnings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, 2)
	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.alike(t, books)

	// The process is away, and the messages that it would have read are kept.
	for _, name := range f.Replicas(fleet.Settlement) {
		if err := f.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	start := func(names ...string) {
		for _, name := range names {
			if err := f.Start(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.serve(t, 2)
	start(f.Replicas(fleet.Settlement)...)
	s.alike(t, books)

	// The process is away, and the messages that it would have read are lost.
	filled := m.Reconciliation(t)["filled"]
	for _, name := range f.Replicas(fleet.Settlement) {
		if err := f.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	s.serve(t, 2)
	nats := f.Replicas(fleet.NATS)[0]
	if err := f.Kill(nats); err != nil {
		t.Fatal(err)
	}
	if err := f.WipeNATS(); err != nil {
		t.Fatal(err)
	}
	start(append([]string{nats}, f.Replicas(fleet.Settlement)...)...)
	s.alike(t, books)
	if report := m.Reconciliation(t); report["filled"] == filled {
		t.Errorf("got %v lines filled before and after the stream was wiped, in %v, want all that it held", filled, report)
	}
}
