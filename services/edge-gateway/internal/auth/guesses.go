package auth

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/address"
	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/lru"
)

// Guesses bounds how many wrong credentials (keys, tokens, passwords, signatures) each network
// may have looked up: Rate in a minute, and as many at once. It remembers a bounded number of
// networks and forgets the network that was heard of least recently, so a caller with more
// networks than that is not bound.
//
// A credential counts as a guess once its look-up has shown that it is wrong. A remembered key and
// a key that was once known are no guesses, because they cost nothing and reveal nothing. auth
// parses keys before their look-up, so a text that is no key is no guess there; the operators'
// gate and cardapi count malformed credentials too. So callers who share an address with a guesser
// are served as before, and a good key that is new may come a hundred times at once. Guesses made
// at once may exceed the rate. The network then waits for them, for at most maxDebt.
//
// A network that has to wait is not shut out, because good keys that this gateway does
// not know yet come from there too, and a guesser could keep them out for ever. Two
// thirds of the rate are looked up all the same, maxBusy at a time. A guess among them
// counts as any other.
type Guesses struct {
	cfg      GuessConfig
	interval time.Duration // one more guess is free again after this
	spare    time.Duration // one more look-up of a network that has to wait after this

	mu       sync.Mutex
	guessers *lru.Map[netip.Prefix, *guesser]
	// good has the digests of tokens that were good when they were last looked up.
	good *lru.Map[apikey.Digest, struct{}]
}

// GuessConfig says what a guess is, and how many there may be.
type GuessConfig struct {
	// Rate is how many guesses a network may make in a minute, and Networks how many networks
	// are remembered.
	Rate, Networks int
	// Tokens is how many good tokens LookUpToken remembers, at least one.
	Tokens int
	// Wrong has the reasons of failed look-ups that count as guesses. A revoked or expired
	// credential is none, because its bearer did not guess it.
	Wrong []fault.Reason
	// Refusal is the text of the error for a network that has to wait.
	Refusal string
	Clock   clock.Clock
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

// NewGuesses makes a bound on guesses.
func NewGuesses(cfg GuessConfig) *Guesses {
	return &Guesses{
		cfg:      cfg,
		interval: guessSpan / time.Duration(cfg.Rate), spare: guessSpan / time.Duration(max(1, cfg.Rate*2/3)),
		guessers: lru.New[netip.Prefix, *guesser](cfg.Networks, nil),
		good:     lru.New[apikey.Digest, struct{}](max(1, cfg.Tokens), nil),
	}
}

// LookUp has ask look up a credential that came from an address, unless too many credentials
// from there were wrong: then LookUp fails with rate_limit_exceeded. A credential that was good
// when it was last looked up is known: it is never held up and is no guess.
func (g *Guesses) LookUp(from netip.Addr, known bool, ask func() error) error {
	if known {
		return ask()
	}
	network, now := address.Network(from), g.cfg.Clock.Now()
	leave, wait := g.enter(network, now)
	if wait > 0 {
		return fault.New(fault.Exhausted, fault.RateLimitExceeded, "%s", g.cfg.Refusal).After(wait)
	}
	defer leave()
	err := ask()
	if f, ok := fault.As(err); ok && slices.Contains(g.cfg.Wrong, f.Reason) {
		g.wrong(network, now)
	}
	return err
}

// LookUpToken is LookUp for a token. A token is known from its last good look-up until a look-up
// refuses it, or until Tokens newer good tokens have taken its place. An error that says nothing
// about the token leaves it as it was.
func (g *Guesses) LookUpToken(from netip.Addr, token apikey.Digest, ask func() error) error {
	err := g.LookUp(from, g.knows(token), ask)
	if err == nil {
		g.Know(token)
	} else if f, ok := fault.As(err); ok && f.Kind == fault.Unauthenticated {
		g.forget(token)
	}
	return err
}

// Know remembers a good token.
func (g *Guesses) Know(token apikey.Digest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.good.Add(token, struct{}{})
}

func (g *Guesses) knows(token apikey.Digest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.good.Contains(token)
}

func (g *Guesses) forget(token apikey.Digest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.good.Remove(token)
}

// enter lets a network have a credential looked up; the caller then calls leave. Otherwise enter
// returns how long the network has to wait.
func (g *Guesses) enter(from netip.Prefix, now time.Time) (leave func(), wait time.Duration) {
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

// wrong counts a guess.
func (g *Guesses) wrong(from netip.Prefix, now time.Time) {
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
