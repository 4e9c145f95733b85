// Package breaker keeps requests away from a provider that fails a model again and again,
// and lets it back with one trial at a time.
//
// One consumer account alone opens no breaker, because a consumer can make its own
// requests fail. Threshold failures of one account in a row, without a success of any
// account between them, raise suspicion. Suspicion changes nothing for other accounts. It
// makes the platform probe the provider with a warm-up, and a probe that fails opens the
// breaker. Failures of Accounts different accounts, without a success between them, open
// it at once.
//
// A failure is excused if its request had failed on another provider before, had less
// time than its prompt needs, or may itself be the cause. An excused failure counts only
// beside a failure of another account that is not excused, because a request that nobody
// can serve must not go through all providers and hurt each of them.
//
// An open breaker rests for FirstRest, and for twice as long with each further opening up
// to MaxRest. Then it is half open: one request may try. If the trial is served, the
// breaker closes and the rest starts over. If the trial fails, the breaker opens again,
// and the account whose trial it was has to wait for one more rest before its next trial,
// so that it cannot keep the breaker open for others. A trial whose outcome never comes
// is given up after ProbeTimeout, and another request may try. A probe of the platform
// that is served ends the rest.
//
// At most maxRemembered accounts are remembered, each until a success, or for RememberFor
// after its last failure. Everything is lost with the process; the next failures raise
// the same suspicion again.
package breaker

import (
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/router/internal/tag"
)

const (
	// Threshold is how many failures of one account in a row raise suspicion.
	Threshold = 5
	// Accounts is how many different accounts must have a failure to open a breaker at
	// once.
	Accounts = 3
	// RememberFor is how long a failure counts against a provider.
	RememberFor = 10 * time.Minute
	// FirstRest is how long a breaker stays open the first time.
	FirstRest = 10 * time.Second
	// MaxRest bounds the doubling of the rest.
	MaxRest = 5 * time.Minute
	// ProbeTimeout is how long a half-open breaker waits for its trial's outcome.
	ProbeTimeout = 30 * time.Second

	// maxRemembered bounds the accounts whose failures are remembered. Fewer than
	// Accounts of them have a failure that is not excused, because the breaker would be
	// open otherwise.
	maxRemembered = 8
)

// State of a breaker.
type State uint8

// The states of a breaker.
const (
	// Closed lets every request through.
	Closed State = iota
	// Open lets none through.
	Open
	// HalfOpen lets one request through at a time.
	HalfOpen
	// Suspected lets every request through, while the platform probes the provider.
	Suspected
)

// trigger is what can change the state of a breaker.
type trigger uint8

const (
	success     trigger = iota // a request was served
	failure                    // a request failed, and nothing follows from it alone
	doubt                      // a request failed, the last of Threshold of its account
	conviction                 // a request failed, of the last of Accounts accounts
	probeServed                // the platform's own probe was served
	probeFailed                // the platform's own probe failed
	rested                     // the rest is over
	faded                      // no failure that is remembered is recent
	triggers                   // the number of triggers
)

// transitions is the whole behaviour: from a state, by a trigger, to a state. A success
// that comes late to an open breaker changes nothing, because its request began before
// the failures. A probe that fails while nobody suspects the provider says that a model
// could not be loaded in advance, which concerns its owner only. A probe that is served
// ends an open breaker's rest.
var transitions = [...][triggers]State{
	Closed: {
		success: Closed, failure: Closed, doubt: Suspected, conviction: Open,
		probeServed: Closed, probeFailed: Closed, rested: Closed, faded: Closed,
	},
	Open: {
		success: Open, failure: Open, doubt: Open, conviction: Open,
		probeServed: HalfOpen, probeFailed: Open, rested: HalfOpen, faded: Open,
	},
	HalfOpen: {
		success: Closed, failure: Open, doubt: Open, conviction: Open,
		probeServed: HalfOpen, probeFailed: Open, rested: HalfOpen, faded: HalfOpen,
	},
	Suspected: {
		success: Closed, failure: Suspected, doubt: Suspected, conviction: Open,
		probeServed: Closed, probeFailed: Open, rested: Suspected, faded: Closed,
	},
}

// memory is what is remembered of one account.
type memory struct {
	account tag.Account
	// failures counts the failures in a row that are not excused.
	failures int
	last     time.Time
}

// Breaker guards one provider and model. The zero value is closed. It is safe
// for concurrent use.
type Breaker struct {
	// stirred is false while the breaker is closed and remembers nothing, which is all
	// that most requests need to know.
	stirred atomic.Bool

	mu       sync.Mutex
	state    State
	failed   []memory // the oldest first
	openings int      // in a row, without a close between them
	until    time.Time
	probing  bool
	probedAt time.Time
	// loser is the account whose trial failed last. It has no trial before patience, so
	// that others may try first.
	loser    tag.Account
	patience time.Time
}

// State returns the state in which the breaker is now.
func (b *Breaker) State(now time.Time) State {
	if !b.stirred.Load() {
		return Closed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ageLocked(now)
	return b.state
}

// Admits reports whether a request of an account may go through now, and whether it would
// be a trial, for which Probe must be called.
func (b *Breaker) Admits(account tag.Account, now time.Time) (admitted, probe bool) {
	if !b.stirred.Load() {
		return true, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ageLocked(now)
	switch b.state {
	case HalfOpen:
		return b.mayProbeLocked(account, now), true
	case Open:
		return false, false
	default:
		return true, false
	}
}

// Shunned reports whether the provider has failed so many requests of this account in a
// row that other providers should serve its further ones. It does not depend on other
// accounts.
func (b *Breaker) Shunned(account tag.Account) bool {
	if !b.stirred.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.failed {
		if b.failed[i].account == account {
			return b.state == Suspected && b.failed[i].failures >= Threshold
		}
	}
	return false
}

// Probe claims the trial of a half-open breaker and reports whether the caller got it. A
// breaker that lets every request through grants it and claims nothing.
func (b *Breaker) Probe(account tag.Account, now time.Time) bool {
	if !b.stirred.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ageLocked(now)
	switch b.state {
	case HalfOpen:
		if !b.mayProbeLocked(account, now) {
			return false
		}
		b.probing, b.probedAt = true, now
		return true
	case Open:
		return false
	default:
		return true
	}
}

func (b *Breaker) mayProbeLocked(account tag.Account, now time.Time) bool {
	if b.probing && now.Sub(b.probedAt) < ProbeTimeout {
		return false
	}
	return account != b.loser || !now.Before(b.patience)
}

// Idle reports whether the breaker is closed and remembers nothing.
func (b *Breaker) Idle(now time.Time) bool {
	if !b.stirred.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ageLocked(now)
	return !b.stirred.Load()
}

// Served takes note of a request that was served. All earlier failures are forgotten,
// whichever account they were of.
func (b *Breaker) Served(now time.Time) {
	if !b.stirred.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ageLocked(now)
	b.failed = b.failed[:0]
	b.fireLocked(success, now)
}

// Failed takes note of a request of an account that the provider failed. It reports
// whether the platform should probe the provider.
func (b *Breaker) Failed(account tag.Account, excused bool, now time.Time) (suspected bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ageLocked(now)
	if b.state == HalfOpen && excused {
		b.probing = false // nothing was learnt, and another request may try
		return false
	}
	tried := b.state == HalfOpen
	m := b.rememberLocked(account, now)
	if !excused {
		m.failures++
	}
	switch {
	case b.accountsLocked() >= Accounts:
		b.fireLocked(conviction, now)
	case m.failures >= Threshold:
		b.fireLocked(doubt, now)
	case excused:
		b.stirred.Store(true)
	default:
		b.fireLocked(failure, now)
	}
	if tried {
		b.loser, b.patience = account, b.until.Add(b.until.Sub(now))
	}
	return b.state != Closed
}

// Probed takes note of the outcome of the platform's own probe.
func (b *Breaker) Probed(served bool, now time.Time) {
	if !b.stirred.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ageLocked(now)
	if !served {
		b.fireLocked(probeFailed, now)
		return
	}
	if b.state == Suspected {
		b.failed = b.failed[:0]
	}
	b.fireLocked(probeServed, now)
}

// rememberLocked finds or makes the memory of an account. The account whose last failure is the
// oldest makes room.
func (b *Breaker) rememberLocked(account tag.Account, now time.Time) *memory {
	m := memory{account: account}
	for i := range b.failed {
		if b.failed[i].account == account {
			m = b.failed[i]
			b.failed = append(b.failed[:i], b.failed[i+1:]...)
			break
		}
	}
	if len(b.failed) == maxRemembered {
		b.failed = append(b.failed[:0], b.failed[1:]...)
	}
	m.last = now
	b.failed = append(b.failed, m)
	return &b.failed[len(b.failed)-1]
}

// accountsLocked returns how many accounts speak against the provider: the accounts with
// a failure that is not excused, and all others once there is such an account.
func (b *Breaker) accountsLocked() int {
	for i := range b.failed {
		if b.failed[i].failures > 0 {
			return len(b.failed)
		}
	}
	return 0
}

// ageLocked does what time alone does: rests end, and old failures are forgotten.
func (b *Breaker) ageLocked(now time.Time) {
	if b.state == Open && !now.Before(b.until) {
		b.fireLocked(rested, now)
	}
	old := 0
	for old < len(b.failed) && now.Sub(b.failed[old].last) >= RememberFor {
		old++
	}
	b.failed = append(b.failed[:0], b.failed[old:]...)
	if len(b.failed) == 0 && b.state == Suspected {
		b.fireLocked(faded, now)
	}
	b.settleLocked()
}

func (b *Breaker) fireLocked(t trigger, now time.Time) {
	from := b.state
	b.state = transitions[from][t]
	if b.state != from {
		b.probing = false
		switch b.state {
		case Open:
			b.failed = b.failed[:0]
			b.until = now.Add(restAfter(b.openings))
			b.openings++
		case Closed:
			b.openings = 0
		case HalfOpen, Suspected:
		}
	}
	b.settleLocked()
}

// settleLocked notes whether the breaker is closed and remembers nothing.
func (b *Breaker) settleLocked() { b.stirred.Store(b.state != Closed || len(b.failed) > 0) }

// restAfter is FirstRest·2^openings, at most MaxRest.
func restAfter(openings int) time.Duration {
	if openings > 5 {
		return MaxRest
	}
	return min(FirstRest<<openings, MaxRest)
}
