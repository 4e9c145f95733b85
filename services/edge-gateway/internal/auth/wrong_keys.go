package auth

import (
	"net/netip"
	"sync"
	"time"

	"svc.internal/pkg/lru"
)

// Guesses bounds how many keys each network may have looked up in vain: rate a
// minute, and as many at once. It remembers as many networks as it is told and
// forgets the one that was heard of least recently; whoever has so many networks
// is not bound by this.
//
// Only what had to be looked up and was wrong counts, once it is known to be. A
// key that is remembered, or was once known, and a text that is no key cost
// nothing and teach nothing: those who share an address with a guesser go on
// working, and a good key that is new may come a hundred times at once. Guesses
// made at once may exceed the rate; they are paid for by waiting, for at most
// maxDebt.
//
// A network that has to wait is not shut: good keys that this gateway has not met
// yet come from there too, and who guesses could keep them out for ever. Two
// thirds of the rate are looked up all the same, maxBusy at a time; a guess among
// them counts as any other.
type Guesses struct {
	interval time.Duration // one more guess is free again after this
	spare    time.Duration // one more look-up of a network that has to wait after this

	mu       sync.Mutex
	guessers *lru.Map[netip.Prefix, *guesser]
}

const (
	// guessSpan is what a rate is counted over.
	guessSpan = time.Minute
	maxDebt   = 10 * guessSpan
	// maxBusy is how many look-ups a network in debt has at a time, and
	// busyWait how long the next should wait.
	maxBusy  = 2
	busyWait = time.Second
)

// guesser is a network; its guesses are paid off at a time, and so are its
// look-ups while it is in debt, of which some are under way.
type guesser struct {
	paid   time.Time
	spared time.Time
	busy   int
}

// debt is how long a network has to wait before its next guess.
func (g *guesser) debt(every time.Duration, now time.Time) time.Duration {
	return max(0, g.paid.Add(every).Sub(now)-guessSpan)
}

// NewGuesses allows rate guesses a minute to each network and remembers most networks.
func NewGuesses(rate, most int) *Guesses {
	return &Guesses{
		interval: guessSpan / time.Duration(rate), spare: guessSpan / time.Duration(max(1, rate*2/3)),
		guessers: lru.New[netip.Prefix, *guesser](most, nil),
	}
}

// Enter lets a network have a key looked up, after which leave is called, or says
// how long it has to wait.
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
