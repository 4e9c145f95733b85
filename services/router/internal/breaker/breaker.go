// Package breaker keeps requests away from a provider that fails a model again
// and again, and lets it back through one probe at a time.
//
// One consumer account alone opens no breaker, because a consumer can make its own
// requests fail. Threshold failures of one account without a success of anybody
// between them raise suspicion. Suspicion changes nothing for other accounts; it
// asks the platform's own probe (a warm-up) whether the provider serves, and a
// probe that fails opens the breaker. Failures of Accounts different accounts,
// again without a success between them, open it at once.
//
// A failure that is excused (its request had failed on another provider before, had
// less time than its prompt needs, or may itself be what failed) counts only beside a failure of another
// account that is not excused: a request that nobody can serve must not walk
// through all providers and hurt each.
//
// An open breaker rests for FirstRest, doubled with each further opening up to
// MaxRest, and is half open then: one request may try. If that is served the
// breaker closes and the rest starts over; if it fails the breaker opens again, and
// the account whose request it was waits as long again before it has another trial,
// so that it cannot keep the breaker open for others. A trial that is never heard of
// is given up after ProbeTimeout and another may try. A probe of the platform that
// is served ends the rest.
//
// At most maxRemembered accounts are remembered, each until a success or for
// RememberFor after its last failure. All is lost with the process; the next
// failures raise the same suspicion again.
package breaker

import (
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/router/internal/tag"
)

const (
	// Threshold is how many failures in a row of one account raise suspicion.
	Threshold = 5
	// Accounts is how many different accounts' failures open a breaker at once.
	Accounts = 3
	// RememberFor is how long a failure is held against a provider.
	RememberFor = 10 * time.Minute
	// FirstRest is how long a breaker stays open the first time.
	FirstRest = 10 * time.Second
	// MaxRest bounds the doubling of the rest.
	MaxRest = 5 * time.Minute
	// ProbeTimeout is how long the outcome of a half-open breaker's trial is
	// waited for.
	ProbeTimeout = 30 * time.Second

	// maxRemembered bounds the accounts whose failures are remembered. Fewer than
	// Accounts of them are not excused, or the breaker would be open.
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
	// Suspected lets every request through, and the platform looks for itself.
	Suspected
)

// trigger is what can move a breaker.
type trigger uint8

const (
	success     trigger = iota // a request was served
	failure                    // one failed, and nothing follows from it alone
	doubt                      // one failed, the last of Threshold of its account
	conviction                 // one failed, of the last of Accounts accounts
	probeServed                // the platform's own probe was served
	probeFailed                // the platform's own probe failed
	rested                     // the rest is over
	faded                      // nothing that is remembered is recent
	triggers                   // how many there are
)

// transitions is the whole behaviour: from state, by trigger, to state. A late
// success while open changes nothing: it began before the trouble. A probe that
// fails while nobody suspects the provider says that a model could not be loaded
// in advance, which is its owner's to hear. A probe that is served ends an open
// breaker's rest.
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
	// failures that are not excused, in a row.
	failures int
	last     time.Time
}

// Breaker guards one provider and model. The zero value is closed. It is safe
// for concurrent use.
type Breaker struct {
	// stirred is false while the breaker is closed and remembers nothing, which is
	// all that most requests need to know.
	stirred atomic.Bool

	mu       sync.Mutex
	state    State
	failed   []memory // the oldest first
	openings int      // in a row, without a close between
	until    time.Time
	probing  bool
	probedAt time.Time
	// loser is the account whose trial failed last. Others may try first: it has
	// no trial before patience.
	loser    tag.Account
	patience time.Time
}

// State is where the breaker stands now.
func (b *Breaker) State(now time.Time) State {
	if !b.stirred.Load() {
		return Closed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now)
	return b.state
}

// Admits reports whether a request of an account may go through now, and whether it
// would be a trial, for which Probe must be called.
func (b *Breaker) Admits(account tag.Account, now time.Time) (admitted, probe bool) {
	if !b.stirred.Load() {
		return true, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now)
	switch b.state {
	case HalfOpen:
		return b.mayProbe(account, now), true
	case Open:
		return false, false
	default:
		return true, false
	}
}

// Shunned reports whether the provider has failed so many requests of this account
// in a row that its further ones are better served by others. Other accounts have no
// part in it.
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

// Probe claims the one trial of a half-open breaker and reports whether the
// caller got it. On one that lets every request through it is granted and claims
// nothing.
func (b *Breaker) Probe(account tag.Account, now time.Time) bool {
	if !b.stirred.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now)
	switch b.state {
	case HalfOpen:
		if !b.mayProbe(account, now) {
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

func (b *Breaker) mayProbe(account tag.Account, now time.Time) bool {
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
	b.age(now)
	return !b.stirred.Load()
}

// Served takes note of a request that was served: whoever it was of, what failed
// before it is forgotten.
func (b *Breaker) Served(now time.Time) {
	if !b.stirred.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now)
	b.failed = b.failed[:0]
	b.fire(success, now)
}

// Failed takes note of a request of an account that the provider failed, and
// reports whether the platform should look for itself.
func (b *Breaker) Failed(account tag.Account, excused bool, now time.Time) (suspected bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now)
	if b.state == HalfOpen && excused {
		b.probing = false // nothing was learnt, and another may try
		return false
	}
	tried := b.state == HalfOpen
	m := b.remember(account, now)
	if !excused {
		m.failures++
	}
	switch {
	case b.accounts() >= Accounts:
		b.fire(conviction, now)
	case m.failures >= Threshold:
		b.fire(doubt, now)
	case excused:
		b.stirred.Store(true)
	default:
		b.fire(failure, now)
	}
	if tried {
		b.loser, b.patience = account, b.until.Add(b.until.Sub(now))
	}
	return b.state != Closed
}

// Probed takes note of what became of the platform's own probe.
func (b *Breaker) Probed(served bool, now time.Time) {
	if !b.stirred.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age(now)
	if !served {
		b.fire(probeFailed, now)
		return
	}
	if b.state == Suspected {
		b.failed = b.failed[:0]
	}
	b.fire(probeServed, now)
}

// remember finds or makes the memory of an account. The one that failed longest
// ago makes room.
func (b *Breaker) remember(account tag.Account, now time.Time) *memory {
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

// accounts is how many accounts speak against the provider: those with a failure
// that is not excused, and, once there is one of those, all others.
func (b *Breaker) accounts() int {
	for i := range b.failed {
		if b.failed[i].failures > 0 {
			return len(b.failed)
		}
	}
	return 0
}

// age lets time do what it does.
func (b *Breaker) age(now time.Time) {
	if b.state == Open && !now.Before(b.until) {
		b.fire(rested, now)
	}
	old := 0
	for old < len(b.failed) && now.Sub(b.failed[old].last) >= RememberFor {
		old++
	}
	b.failed = append(b.failed[:0], b.failed[old:]...)
	if len(b.failed) == 0 && b.state == Suspected {
		b.fire(faded, now)
	}
	b.settle()
}

func (b *Breaker) fire(t trigger, now time.Time) {
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
	b.settle()
}

// settle notes whether there is anything to look at.
func (b *Breaker) settle() { b.stirred.Store(b.state != Closed || len(b.failed) > 0) }

// restAfter is FirstRest·2^openings, at most MaxRest.
func restAfter(openings int) time.Duration {
	if openings > 5 {
		return MaxRest
	}
	return min(FirstRest<<openings, MaxRest)
}
