package auth

import (
	"net/netip"
	"sync"
	"time"

	"svc.internal/pkg/lru"
)

// Guesses bounds how many wrong keys each network may have looked up: rate in a minute,
// and as many at once. It remembers a bounded number of networks and forgets the network
// that was heard of least recently, so a caller with more networks than that is not
// bound.
//
// A key counts as a guess once its look-up has shown that it is wrong. A remembered key,
// a key that was once known, and a text that is no key are no guesses, because they cost
// nothing and reveal nothing. So callers who share an address with a guesser are served
// as before, and a good key that is new may come a hundred times at once. Guesses made at
// once may exceed the rate. The network then waits for them, for at most maxDebt.
//
// A network that has to wait is not shut out, because good keys that this gateway does
// not know yet come from there too, and a guesser could keep them out for ever. Two
// thirds of the rate are looked up all the same, maxBusy at a time. A guess among them
// counts as any other.
type Guesses struct {
	interval time.Duration // one more guess is free again after this
	spare    time.Duration // one more look-up of a network that has to wait after this

	mu       sync.Mutex
	guessers *lru.Map[netip.Prefix, *guesser]
}

const (
	// guessSpan is the span over which the rate is counted.
	guessSpan = time.Minute
	maxDebt   = 10 * guessSpan
	// maxBusy is how many look-ups a network in debt may have at a time, and busyWait how
	// long its next should wait.
	maxBusy  = 2
	busyWait = time.Second
)

// guesser is a network. Its guesses and its look-ups in debt are paid off with time; some
// of the look-ups are under way.
type guesser struct {
	paid   time.Time
	spared time.Time
	busy   int
}

// debt returns how long a network has to wait before its next guess.
func (g *guesser) debt(every time.Duration, now time.Time) time.Duration {
	return max(0, g.paid.Add(every).Sub(now)-guessSpan)
}

// NewGuesses allows each network rate guesses in a minute and remembers so many networks.
func NewGuesses(rate, networks int) *Guesses {
	return &Guesses{
		interval: guessSpan / time.Duration(rate), spare: guessSpan / time.Duration(max(1, rate*2/3)),
		guessers: lru.New[netip.Prefix, *guesser](networks, nil),
	}
}

// Enter lets a network have a key looked up; the caller then calls leave. Otherwise Enter
// returns how long the network has to wait.
func (g *Guesses) Enter(from netip.Prefix, now time.Time) (leave func(), wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, ok := g.guessers.Peek(from)
	if !ok {
		return func() {}, 0
	}
	debt := one.debt(g.interval, now)
	if debt == 0 {
		return func() {}, 0
	}
	if one.busy >= maxBusy {
		return nil, min(debt, busyWait)
	}
	if one.spared.Before(now) {
		one.spared = now
	}
	spared := one.spared.Add(g.spare)
	if wait := spared.Sub(now) - guessSpan; wait > 0 {
		return nil, min(debt, wait)
	}
	one.spared = spared
	one.busy++
	return func() { g.leave(one) }, 0
}

func (g *Guesses) leave(one *guesser) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one.busy--
}

// Wrong counts a guess.
func (g *Guesses) Wrong(from netip.Prefix, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, ok := g.guessers.Get(from)
	if !ok {
		one = &guesser{}
		g.guessers.Add(from, one)
	}
	if one.paid.Before(now) {
		one.paid = now
	}
	if paid := one.paid.Add(g.interval); paid.Sub(now) <= maxDebt {
		one.paid = paid
	}
}
