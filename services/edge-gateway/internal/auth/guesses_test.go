package auth

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// guessing is an authenticator that knows one key and lets a network try three
// others a minute, and two more of them while it is in debt.
func guessing(t *testing.T) bundle {
	t.Helper()
	b := setup(t)
	b.cfg.WrongKeys, b.cfg.WrongKeyNetworks, b.cfg.Refused = 3, 2, 8
	b.Authenticator = New(b.ledger, b.clock, b.cfg)
	if _, err := b.Authenticate(t.Context(), b.key, netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "no such key")
	}
	return b
}

func (b bundle) guess(t *testing.T, from string, want fault.Reason) {
	t.Helper()
	if _, err := b.Authenticate(t.Context(), header(t), netip.MustParseAddr(from)); !fault.Is(err, want) {
		t.Errorf("a guess from %s: got %v, want %s", from, err, want)
	}
}

func TestGuessesOfANetworkAreBounded(t *testing.T) {
	b := guessing(t)
	for n := range 5 {
		b.guess(t, fmt.Sprintf("2001:db8::%d", n+1), fault.InvalidAPIKey)
	}
	asked := b.ledger.asked
	b.guess(t, "2001:db8::ffff:1", fault.RateLimitExceeded)
	if b.ledger.asked != asked {
		t.Errorf("look-ups after a guess above the bound: got %d, want %d", b.ledger.asked, asked)
	}
	_, err := b.Authenticate(t.Context(), header(t), netip.MustParseAddr("2001:db8::1"))
	if f, ok := fault.As(err); !ok {
		t.Errorf("wait: got the error %v, want a fault", err)
	} else if f.RetryAfter <= 0 || f.RetryAfter > 30*time.Second {
		t.Errorf("wait: f.RetryAfter: got %v, want more than 0 and at most %v", f.RetryAfter, 30*time.Second)
	}
	b.guess(t, "2001:db8:0:1::1", fault.InvalidAPIKey)
	b.clock.Advance(30 * time.Second)
	b.guess(t, "2001:db8::1", fault.InvalidAPIKey)
	b.guess(t, "2001:db8::1", fault.RateLimitExceeded)
}

// What is known, or was, is let in whoever else sits behind the address; so is
// a wrong key that is remembered refused as ever.
func TestAGuesserDoesNotShutOutItsNeighbours(t *testing.T) {
	b := guessing(t)
	from := netip.MustParseAddr("203.0.113.9")
	wrong := header(t)
	if _, err := b.Authenticate(t.Context(), wrong, from); !fault.Is(err, fault.InvalidAPIKey) {
		t.Fatalf("got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	for range 4 {
		b.guess(t, from.String(), fault.InvalidAPIKey)
	}
	b.guess(t, from.String(), fault.RateLimitExceeded)
	if _, err := b.Authenticate(t.Context(), wrong, from); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a key that is known to be wrong: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	if _, err := b.Authenticate(t.Context(), b.key, from); err != nil {
		t.Errorf("a known key: %v", err)
	}
	b.clock.Advance(61 * time.Second) // the key is looked up again
	for range 3 {
		b.guess(t, from.String(), fault.InvalidAPIKey)
	}
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return &billingv1.AuthenticateKeyResponse{KeyId: "k", AccountId: "a"}, nil
	}
	if _, err := b.Authenticate(t.Context(), b.key, from); err != nil {
		t.Errorf("a key that was known: %v", err)
	}
}

// An outage is no guess, and neither is a good key that comes often at once.
func TestOnlyWrongKeysAreCounted(t *testing.T) {
	b := guessing(t)
	from := netip.MustParseAddr("203.0.113.9")
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	}
	for range 10 {
		b.guess(t, from.String(), fault.ServiceUnavailable)
	}
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return &billingv1.AuthenticateKeyResponse{KeyId: "k2", AccountId: "a"}, nil
	}
	key := header(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := b.Authenticate(t.Context(), key, from); err != nil {
				t.Errorf("a good key: %v", err)
			}
		})
	}
	all.Wait()
}

func TestNetworksOfGuessersAreBoundedAndSoIsTheirDebt(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := NewGuesses(GuessConfig{Rate: 3, Networks: 10})
	for n := range 1000 {
		g.wrong(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 32), now)
	}
	if got, want := g.guessers.Len(), 10; got != want {
		t.Errorf("got %d networks, want %d", got, want)
	}
	one := netip.MustParsePrefix("192.0.2.1/32")
	for range 10_000 {
		g.wrong(one, now)
	}
	debt := func(now time.Time) time.Duration {
		guesser, _ := g.guessers.Peek(one)
		return guesser.debt(g.interval, now)
	}
	if wait := debt(now); wait < maxDebt-2*guessSpan || wait > maxDebt {
		t.Errorf("a network deep in debt has to wait: got %v, want %v to %v", wait, maxDebt-2*guessSpan, maxDebt)
	}
	if debt(now.Add(maxDebt)) != 0 {
		t.Error("a debt is never paid")
	}
}

// Whoever guesses cannot keep out a good key that this gateway has not met.
func TestAGoodKeyIsFoundBehindAnAddressInDebt(t *testing.T) {
	b := guessing(t)
	from := netip.MustParseAddr("203.0.113.9")
	for range 3 {
		b.guess(t, from.String(), fault.InvalidAPIKey)
	}
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return &billingv1.AuthenticateKeyResponse{KeyId: "k2", AccountId: "a"}, nil
	}
	if who, err := b.Authenticate(t.Context(), header(t), from); err != nil {
		t.Errorf("a new good key: got the error %v, want none", err)
	} else if who.KeyID != "k2" {
		t.Errorf(`a new good key: who.KeyID: got %q, want "k2"`, who.KeyID)
	}
}

func TestLookUpsOfANetworkInDebtAreBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := NewGuesses(GuessConfig{Rate: 30, Networks: 10})
	from := netip.MustParsePrefix("192.0.2.1/32")
	for range 1000 {
		g.wrong(from, now)
	}
	first, wait := g.enter(from, now)
	second, waitToo := g.enter(from, now)
	if wait+waitToo != 0 {
		t.Fatalf("the first two have to wait %v and %v: wait+waitToo: got %v, want 0", wait, waitToo, wait+waitToo)
	}
	if _, wait := g.enter(from, now); wait != busyWait {
		t.Errorf("a third at a time has to wait: got %v, want %v", wait, busyWait)
	}
	first()
	second()
	spared := 2
	for range 100 {
		if leave, wait := g.enter(from, now); wait == 0 {
			leave()
			spared++
		}
	}
	if spared != 20 {
		t.Errorf("look-ups within a minute: got %d, want 20", spared)
	}
	if _, wait := g.enter(from, now); wait != 3*time.Second {
		t.Errorf("one more has to wait: got %v, want %v", wait, 3*time.Second)
	}
	if leave, wait := g.enter(from, now.Add(3*time.Second)); wait != 0 {
		t.Errorf("three seconds later it has to wait: got %v, want 0", wait)
	} else {
		leave()
	}
}

// A key that was somebody's is guessed by nobody: clients go on with one for a
// while after it was revoked.
func TestARevokedKeyIsNoGuess(t *testing.T) {
	for _, reason := range []fault.Reason{fault.KeyRevoked, fault.KeyExpired} {
		b := guessing(t)
		b.ledger.answer = refusal(reason)
		for range 20 {
			b.guess(t, "203.0.113.9", reason)
		}
	}
}

// Most changes of a key are no end of it, and nobody's guesses keep it out then.
func TestAChangedKeyIsStillKnown(t *testing.T) {
	b := guessing(t)
	from := netip.MustParseAddr("203.0.113.9")
	for range 5 {
		b.guess(t, from.String(), fault.InvalidAPIKey)
	}
	b.guess(t, from.String(), fault.RateLimitExceeded)
	b.Forget("k")
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return &billingv1.AuthenticateKeyResponse{KeyId: "k", AccountId: "changed"}, nil
	}
	if who, err := b.Authenticate(t.Context(), b.key, from); err != nil {
		t.Errorf("a key that was changed: got the error %v, want none", err)
	} else if who.AccountID != "changed" {
		t.Errorf(`a key that was changed: who.AccountID: got %q, want "changed"`, who.AccountID)
	}
	b.Forget("k")
	b.ledger.answer = refusal(fault.InvalidAPIKey)
	if _, err := b.Authenticate(t.Context(), b.key, from); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a key that is wrong now: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	b.clock.Advance(b.cfg.RefusedFor)
	if _, err := b.Authenticate(t.Context(), b.key, from); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("a key that was looked up wrong is still known: got the error %v, want the reason %v", err,
			fault.RateLimitExceeded)
	}
}

// tokens is a bound on the tokens of one network, which lets it guess three times a minute and
// remembers two good tokens.
type tokens struct {
	*Guesses
	from netip.Addr
}

func newTokens() tokens {
	g := NewGuesses(GuessConfig{Rate: 3, Networks: 4, Tokens: 2, Refusal: "wait", Clock: clock.NewManual(time.Date(2026, 1,
		1, 0, 0, 0, 0, time.UTC)), Wrong: []fault.Reason{fault.InvalidSession}})
	return tokens{g, netip.MustParseAddr("203.0.113.9")}
}

// lookUp looks up a token. The service answers with finds.
func (g tokens) lookUp(token string, finds error) error {
	return g.LookUpToken(g.from, apikey.Sum(token), func() error { return finds })
}

// exhaust guesses until the network has to wait.
func (g tokens) exhaust() {
	for range 100 {
		_ = g.lookUp("wrong", fault.New(fault.Unauthenticated, fault.InvalidSession, "no such session"))
	}
}

func TestAGuesserHoldsUpEndedTokensButNoGoodOnes(t *testing.T) {
	g := newTokens()
	if err := g.lookUp("ada", nil); err != nil {
		t.Fatal(err)
	}
	g.exhaust()
	if err := g.lookUp("bob", nil); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("a token of which nothing is known: got %v, want %s", err, fault.RateLimitExceeded)
	}
	away := errors.New("the ledger is away")
	for what, finds := range map[string]error{"good": nil, "not looked up": away} {
		if err := g.lookUp("ada", finds); !errors.Is(err, finds) {
			t.Errorf("a known token that is %s: got %v, want %v", what, err, finds)
		}
	}
	ended := fault.New(fault.Unauthenticated, fault.SessionExpired, "over")
	if err := g.lookUp("ada", ended); !fault.Is(err, fault.SessionExpired) {
		t.Errorf("a known token that ended: got %v, want %s", err, fault.SessionExpired)
	}
	if err := g.lookUp("ada", nil); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("a token that ended, again: got %v, want %s", err, fault.RateLimitExceeded)
	}
}

func TestGoodTokensThatAreRememberedAreBounded(t *testing.T) {
	g := newTokens()
	for n := range 10 {
		if err := g.lookUp(fmt.Sprint(n), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.good.Len(); got != 2 {
		t.Errorf("tokens remembered: got %d, want 2", got)
	}
	g.exhaust()
	if err := g.lookUp("9", nil); err != nil {
		t.Errorf("the last of them: got %v, want no error", err)
	}
	if err := g.lookUp("0", nil); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("the first of them: got %v, want %s", err, fault.RateLimitExceeded)
	}
}
