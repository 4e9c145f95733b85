// Package trial is the harness of the end-to-end tests: a running marketplace
// as its users meet it, over HTTP and provider sockets, with the accounts,
// providers and calls that tests make.
//
//	func TestMain(m *testing.M) { trial.Main(m) }
//
//	func TestAnswersAreCharged(t *testing.T) {
//		m := trial.Start(t, "SVC_DEMO_AGENT=off")
//		m.PutModel(t, "test/plain")
//		m.Join(t, "honest", engine, "test/plain")
//		account, key := m.Consumer(t, "1")
//		status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat("test/plain", ""))
//		receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
//	}
//
// Every wait is bounded by Patience and waits for a state, never for a time. A failure
// of the harness fails the test that called it.
package trial

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/services/proving/internal/fleet"
)

// Patience bounds every wait of the harness. Nothing should come near it.
const Patience = 4 * time.Minute

// Market is a running marketplace. Its methods may be called by several goroutines at
// once. A method that takes a testing.TB and fails it may be called only by the goroutine
// of that test.
type Market struct {
	// Env has the variables of the file demo.env: SVC_BASE_URL, SVC_WS_URL, SVC_API_KEY,
	// SVC_PROVIDER_KEY, SVC_ADMIN_URL, SVC_ADMIN_TOKEN, SVC_DATABASE_URL, SVC_METRICS_URL
	// and SVC_MODEL. The variables of the demo's own accounts are missing where no demo
	// was made. The URLs of a fleet are those of the first gateway and hub.
	Env map[string]string

	stop   func() error
	wait   func() error
	output *Output
	log    *Output
	staff  *staff // nil where no bootstrap token is known

	// A fleet has several gateways and hubs, which take turns.
	fleet                  *fleet.Fleet
	bases, admins, sockets []string
	turn                   atomic.Uint32
}

// staff is the admin of a market who invites operators, because no machine may. The admin is made
// by the market's bootstrap token when somebody asks for an operator.
type staff struct {
	bootstrap string

	mu    sync.Mutex
	admin *Operator
	token string // of the admin's session
}

// Operator is a person who runs the marketplace and can sign in.
type Operator struct {
	ID, Name         string
	market           *Market
	password, secret string
	// used is the step of the code that was used last; a code is good once.
	used int64
}

// Attach is a market that somebody else runs, known by the variables that
// demo.env has.
func Attach(env map[string]string) *Market { return &Market{Env: env} }

// Base is the root of the public API, without /v1; in a fleet, that of the next gateway
// in turn.
func (m *Market) Base() string { return m.next(m.bases, "SVC_BASE_URL") }

// Through is the same market through one of its gateways.
func (m *Market) Through(base string) *Market {
	through := &Market{Env: m.Env, fleet: m.fleet, bases: []string{base}, sockets: m.sockets, staff: m.staff}
	if i := slices.Index(m.bases, base); i >= 0 && len(m.admins) == len(m.bases) {
		through.admins = m.admins[i : i+1]
	}
	return through
}

// AdminURL is the root of the operators' API; in a fleet, that of the next gateway in
// turn.
func (m *Market) AdminURL() string { return m.next(m.admins, "SVC_ADMIN_URL") }

// Bases are the roots of the public API at all gateways.
func (m *Market) Bases() []string { return all(m.bases, m.Env["SVC_BASE_URL"]) }

// WSURLs are the addresses for provider agents, at all hubs.
func (m *Market) WSURLs() []string { return all(m.sockets, m.Env["SVC_WS_URL"]) }

func all(urls []string, only string) []string {
	if len(urls) == 0 {
		return []string{only}
	}
	return slices.Clone(urls)
}

// WSURL is the address for provider agents, without /ws; in a fleet, that of the next hub
// in turn.
func (m *Market) WSURL() string { return m.next(m.sockets, "SVC_WS_URL") }

func (m *Market) next(urls []string, name string) string {
	if len(urls) == 0 {
		return m.Env[name]
	}
	return urls[int(m.turn.Add(1))%len(urls)]
}

// Key is the demo consumer's key.
func (m *Market) Key() string { return m.Env["SVC_API_KEY"] }

// Model is the demo's model.
func (m *Market) Model() string { return m.Env["SVC_MODEL"] }

// Stop ends the market and returns its result. Further calls return the same. The end of
// the test stops it too.
func (m *Market) Stop() error {
	if m.stop == nil {
		return nil
	}
	return m.stop()
}

// Wait returns when the market has ended by itself, with its result.
func (m *Market) Wait() error {
	if m.wait == nil {
		return nil
	}
	return m.wait()
}

// Output is the market's console.
func (m *Market) Output() string {
	if m.output == nil {
		return ""
	}
	return m.output.Text()
}

// Log is the log of a standalone that Start began. A fleet's logs are files in its
// directory.
func (m *Market) Log() string {
	if m.log == nil {
		return ""
	}
	return m.log.Text()
}

// Until waits for a state that other processes bring about. what names it in the failure.
func Until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	UntilWithin(t, Patience, what, reached)
}

// Each pause between two looks is a quarter longer than the one before, so that a long
// wait costs few looks.
const firstPause, longestPause = 25 * time.Millisecond, 250 * time.Millisecond

// UntilWithin is Until for a state that may take longer by design.
func UntilWithin(t testing.TB, patience time.Duration, what string, reached func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for pause := firstPause; !reached(); pause = min(pause+pause/4, longestPause) {
		select {
		case <-time.After(pause):
		case <-deadline.C:
			t.Fatalf("still not: %s", what)
		}
	}
}
