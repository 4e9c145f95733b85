package auth

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// guesses bounds how many keys each network may have looked up in vain: rate a
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
type guesses struct {
	most  int
	every time.Duration // one more guess is free again after this

	mu    sync.Mutex
	order *list.List // of *guesser, most recent first
	at    map[netip.Prefix]*list.Element
}

const (
	// guessSpan is what a rate is counted over.
	guessSpan = time.Minute
	maxDebt   = 10 * guessSpan
)

// guesser is a network; its guesses are paid off at a time.
type guesser struct {
	network netip.Prefix
	paid    time.Time
}

func newGuesses(rate, most int) *guesses {
	return &guesses{
		most: most, every: guessSpan / time.Duration(rate),
		order: list.New(), at: map[netip.Prefix]*list.Element{},
	}
}

// wait is how long a network has to wait before its next guess.
func (g *guesses) wait(from netip.Prefix, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	element, ok := g.at[from]
	if !ok {
		return 0
	}
	return max(0, element.Value.(*guesser).paid.Add(g.every).Sub(now)-guessSpan)
}

// wrong counts a guess.
func (g *guesses) wrong(from netip.Prefix, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.find(from)
	if one.paid.Before(now) {
		one.paid = now
	}
	if paid := one.paid.Add(g.every); paid.Sub(now) <= maxDebt {
		one.paid = paid
	}
}

func (g *guesses) find(from netip.Prefix) *guesser {
	if element, ok := g.at[from]; ok {
		g.order.MoveToFront(element)
		return element.Value.(*guesser)
	}
	if len(g.at) >= g.most {
		oldest := g.order.Back()
		g.order.Remove(oldest)
		delete(g.at, oldest.Value.(*guesser).network)
	}
	one := &guesser{network: from}
	g.at[from] = g.order.PushFront(one)
	return one
}
