//go:build rehearsal

package worst

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/services/proving/internal/auditor"
	"svc.internal/services/proving/internal/chaos/caller"
	"svc.internal/services/proving/internal/chaos/engine"
	"svc.internal/services/proving/internal/chaos/record"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/store"
	"svc.internal/services/proving/internal/trial"
)

const (
	callers = 6
	// granted is the credit of the callers' account, in nano-USD.
	granted = 1_000_000_000_000
	// callBound is how long a call may take, think the mean pause of a caller between two.
	callBound, think = time.Minute, 40 * time.Millisecond
	// auditSkew is the longest time of a transaction on a database that is killed.
	auditSkew = 30 * time.Second
	// idleSteady is how often in a row a market must be seen idle.
	idleSteady = 4
	// maxMetrics bounds what is read of a hub's metrics, in bytes.
	maxMetrics = 4 << 20
)

// audited is a market under load, whose clients and engines keep for the auditor what they saw.
type audited struct {
	*trial.Market
	fleet *fleet.Fleet
	// account has the credit, and key is a key of it.
	account, key string
	disk         *disk
	books        *store.Databases
	dir          string
	clients      *record.File[record.Client]
	served       *record.File[record.Engine]
	engines      []*engine.Engine
	load         *caller.Load

	mu sync.Mutex
	// answers are the times at which calls were sent that were answered with the truth, and
	// failures those of calls that were not.
	answers, failures []time.Time
}

// audit makes a market with a provider at each of the addresses, and puts it under load.
func audit(t *testing.T, m *trial.Market, hubs ...string) *audited {
	t.Helper()
	a := &audited{Market: m, fleet: m.Fleet(), dir: t.TempDir(), disk: &disk{fleet: m.Fleet()}}
	var err error
	if a.books, err = store.Open(t.Context(), a.fleet.DatabaseURL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.books.Close)
	if a.clients, err = record.Create[record.Client](a.path(record.ClientsFile)); err != nil {
		t.Fatal(err)
	}
	if a.served, err = record.Create[record.Engine](a.path(record.EnginesFile)); err != nil {
		t.Fatal(err)
	}
	m.PutModel(t, model)
	setup := record.Setup{Setup: true, Models: []record.Model{{Model: model, InputRate: 1_000_000, OutputRate: 3_000_000,
		PayoutInputRate: 900_000, PayoutOutputRate: 2_700_000}}}
	for i, hub := range hubs {
		setup.Providers = append(setup.Providers, a.join(t, hub, fmt.Sprintf("engine-%d", i+1)))
	}
	a.account, a.key = m.Consumer(t, "1000")
	m.Unlimit(t, a.account)
	setup.Accounts = []record.Account{{AccountID: a.account, Name: "rich", GrantedNano: granted,
		RequestsPerMinute: -1, ConcurrentRequests: -1}}
	if err := record.Write(a.path(record.SetupFile), setup); err != nil {
		t.Fatal(err)
	}
	a.ask(t, 16)
	return a
}

// ask puts the market under load. Another seed makes another load.
func (a *audited) ask(t *testing.T, seed uint64) {
	t.Helper()
	load := caller.Start(caller.Config{
		Seed: seed, Callers: callers, Models: []string{model}, Gateways: a.Bases(), Think: think, Bound: callBound,
		Accounts: []caller.Account{{Name: "rich", ID: a.account, Key: a.key, Weight: 1}}, Ended: a.ended,
	})
	t.Cleanup(func() { load.Stop() })
	a.load = load
}

func (a *audited) path(name string) string { return filepath.Join(a.dir, name) }

// join makes a provider with an engine of the auditor's, and connects its agent.
func (a *audited) join(t *testing.T, hub, name string) record.Provider {
	t.Helper()
	p := a.Provider(t, name)
	e, err := engine.Start(name, p.ID, []string{model}, a.served)
	if err != nil {
		t.Fatal(err)
	}
	a.engines = append(a.engines, e)
	a.ConnectAt(t, p, hub, e.URL, model)
	a.WaitOffered(t, model, p.ID)
	return record.Provider{ProviderID: p.ID, Engine: name}
}

func (a *audited) ended(c caller.Call) {
	a.clients.Add(c.Client)
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Answered() || c.Left {
		a.answers = append(a.answers, c.SentAt)
		return
	}
	a.failures = append(a.failures, c.SentAt)
}

// since counts the calls that were sent after a time and were answered, and those that failed. It
// also returns how long after that time the first answered call and the last failed call were sent.
func (a *audited) since(at time.Time) (answered, failed int, first, last time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sent := range a.answers {
		if after := sent.Sub(at); after >= 0 {
			answered++
			if first == 0 || after < first {
				first = after
			}
		}
	}
	for _, sent := range a.failures {
		if after := sent.Sub(at); after >= 0 {
			failed++
			last = max(last, after)
		}
	}
	return answered, failed, first, last
}

// answersMore waits until so many calls are answered that were sent after a time.
func (a *audited) answersMore(t *testing.T, what string, n int, at time.Time) {
	t.Helper()
	trial.Until(t, what, func() bool {
		answered, _, _, _ := a.since(at)
		return answered >= n
	})
}

// settlesMore waits until the ledger has settled so many requests more.
func (a *audited) settlesMore(t *testing.T, what string, n int) {
	t.Helper()
	before := len(a.disk.lines(t))
	trial.Until(t, what, func() bool { return len(a.disk.lines(t)) >= before+n })
}

// unsettled matches a hub's gauge of usage that waits.
var unsettled = regexp.MustCompile(`(?m)^svc_provider_hub_unsettled(?:\{[^}]*\})? (\S+)$`)

// waiting reports whether usage waits in a hub, and whether the hub says so.
func (a *audited) waiting(ctx context.Context, hub string) (waits, known bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.fleet.AdminURL(hub)+"/metrics", nil)
	if err != nil {
		return false, false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return false, false
	}
	for _, match := range unsettled.FindAllSubmatch(text, -1) {
		known = true
		waits = waits || string(match[1]) != "0"
	}
	return waits, known
}

// idle ends the load and waits until nothing is left to do.
func (a *audited) idle(t *testing.T) {
	t.Helper()
	t.Logf("%d calls were made", a.load.Stop())
	steady := 0
	trial.UntilWithin(t, 2*trial.Patience, "the market is idle", func() bool {
		left, err := a.books.Left(t.Context())
		idle := err == nil && left.None()
		for _, hub := range a.fleet.Replicas(fleet.Hub) {
			waits, known := a.waiting(t.Context(), hub)
			idle = idle && known && !waits
		}
		if !idle {
			steady = 0
			return false
		}
		steady++
		return steady >= idleSteady
	})
}

// export ends the engines and writes the books.
func (a *audited) export(t *testing.T) {
	t.Helper()
	for _, e := range a.engines {
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.clients.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.served.Close(); err != nil {
		t.Fatal(err)
	}
	ledger := filepath.Join(trial.Programs(t, ""), fleet.Billing)
	cmd := exec.CommandContext(t.Context(), ledger, "export", "-out", a.path(record.LedgerFile))
	cmd.Env = append(os.Environ(), "DATABASE_URL="+a.fleet.DatabaseURL())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("billing-ledger export: %v\n%s", err, out)
	}
	file, err := os.Create(a.path(record.SettlementFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.books.Dump(t.Context(), "settlement", file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// report is what the auditor says of the files.
func (a *audited) report(t *testing.T) *auditor.Report {
	t.Helper()
	var in auditor.Inputs
	for name, to := range map[string]*io.Reader{
		record.LedgerFile: &in.Export, record.SettlementFile: &in.Earnings, record.ClientsFile: &in.Clients,
		record.EnginesFile: &in.Engines, record.SetupFile: &in.Setup,
	} {
		file, err := os.Open(a.path(name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		*to = file
	}
	report, err := auditor.Audit(in, auditor.Options{Skew: auditSkew})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the auditor has judged %d calls, and %d requests are settled", report.Judged, report.Settled)
	return report
}

// sound fails the test unless the market's own books have no drift, and the auditor finds nothing wrong.
func (a *audited) sound(t *testing.T) {
	t.Helper()
	a.idle(t)
	a.Balanced(t)
	a.export(t)
	agrees(t, a.report(t), nil)
}

// agrees fails the test unless the auditor finds nothing wrong and could judge everything but requests of which the
// ledger has nothing but usage in quarantine.
func agrees(t *testing.T, report *auditor.Report, forgotten map[string]int64) {
	t.Helper()
	for _, j := range report.Judgements {
		for _, f := range j.Findings {
			t.Errorf("%s: %s: %s", j.Verdict, f.Subject, f.Text)
		}
	}
	for _, f := range report.Undecided {
		if _, there := forgotten[strings.TrimPrefix(f.Subject, "request ")]; !there {
			t.Errorf("undecided: %s: %s", f.Subject, f.Text)
		}
	}
	if report.Doubts > len(forgotten) {
		t.Errorf("what could not be judged: got %d, want at most %d", report.Doubts, len(forgotten))
	}
	if report.Judged < 100 {
		t.Errorf("calls that the auditor has judged: got %d, want at least 100", report.Judged)
	}
	var notes []string
	for _, n := range report.Notes {
		notes = append(notes, fmt.Sprintf("%d %s", n.N, n.Name))
	}
	t.Logf("the auditor notes: %s", strings.Join(notes, ", "))
}
