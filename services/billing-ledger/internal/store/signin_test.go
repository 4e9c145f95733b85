package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/user"
)

const ada = user.Email("ada@example.com")

// from is the mark of one of many networks.
func from(n int) user.Digest { return user.Digest{1, byte(n), byte(n >> 8)} }

// take counts an attempt and reports whether there was room.
func (e *env) take(t *testing.T, st *store.Store, email user.Email, network user.Digest) (user.Attempt, bool) {
	t.Helper()
	a, err := st.TakeAttempt(t.Context(), email, network)
	if err == nil {
		return a, true
	}
	if f := refusal(t, err); f.Reason != fault.RateLimitExceeded {
		t.Errorf("f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
	} else if f.RetryAfter <= 0 || f.RetryAfter > user.NetworkPace.Interval {
		t.Errorf("f.RetryAfter: got %v, want more than 0 and at most %v", f.RetryAfter, user.NetworkPace.Interval)
	}
	return a, false
}

// Two replicas count as one, whether the guesses come from one network or from
// hundreds.
func TestRacingGuessesOnTwoReplicasAreAsManyAsOfOne(t *testing.T) {
	e := setup(t, unlimited)
	replicas := []*store.Store{e.store, store.New(e.pool, unlimited, terms)}
	for _, c := range []struct {
		name          string
		email         user.Email
		networks      int
		tries, atOnce int
	}{
		{"one network", "one@example.com", 1, 60, user.NetworkPace.AtOnce},
		{"hundreds", "all@example.com", 300, 300, user.StrangersPace.AtOnce},
	} {
		var racers sync.WaitGroup
		var mu sync.Mutex
		taken := 0
		for n := range c.tries {
			racers.Go(func() {
				if _, ok := e.take(t, replicas[n%2], c.email, from(n%c.networks)); ok {
					mu.Lock()
					defer mu.Unlock()
					taken++
				}
			})
		}
		racers.Wait()
		if taken != c.atOnce {
			t.Errorf("%s: got %d attempts taken, want %d", c.name, taken, c.atOnce)
		}
		// Refused attempts leave nothing: a row for each network, and that of strangers.
		digest := c.email.Digest()
		if n := scan[int](t, e, `SELECT count(*) FROM sign_in_count WHERE email_sha256 = $1`, digest[:]); n > c.atOnce+1 {
			t.Errorf("%s: got %d rows, want %d at most", c.name, n, c.atOnce+1)
		}
	}
}

// A hundred strangers guess; the owner signs in from home at once, and from
// anywhere as soon as an attempt of strangers is free again.
func TestStrangersWhoGuessDoNotShutTheOwnerOut(t *testing.T) {
	e := setup(t, unlimited)
	e.signUp(t, string(ada))
	users := e.users(t)
	for n := range user.StrangersPace.AtOnce + 20 {
		if _, ok := e.take(t, e.store, ada, from(n)); ok != (n < user.StrangersPace.AtOnce) {
			t.Fatalf("attempt %d: room: got %t, want %t", n+1, ok, n < user.StrangersPace.AtOnce)
		}
	}
	if _, err := users.LogIn(t.Context(), string(ada), password, user.From{Network: "home"}); err != nil {
		t.Errorf("from the network of the sign-up: %v", err)
	}
	_, err := users.LogIn(t.Context(), string(ada), password, user.From{Network: "abroad"})
	if f := refusal(t, err); f.Reason != fault.RateLimitExceeded {
		t.Errorf("from elsewhere: f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
	} else if f.RetryAfter > user.StrangersPace.Interval {
		t.Errorf("from elsewhere: f.RetryAfter: got %v, want at most %v", f.RetryAfter, user.StrangersPace.Interval)
	}
	e.exec(t, `UPDATE sign_in_count SET full_at = full_at - interval '36 seconds'`)
	if _, err := users.LogIn(t.Context(), string(ada), password, user.From{Network: "abroad"}); err != nil {
		t.Errorf("from elsewhere, 36 seconds later: %v", err)
	}
	e.take(t, e.store, ada, from(1000)) // takes what the sign-in has given back
	if _, ok := e.take(t, e.store, ada, from(1001)); ok {
		t.Error("got room for a stranger, want none")
	}
	if _, err := users.LogIn(t.Context(), string(ada), password, user.From{Network: "abroad"}); err != nil {
		t.Errorf("from where the owner has signed in: %v", err)
	}
	e.sound(t)
}

func TestFailuresOfOneNetworkDoNotShutOutAnother(t *testing.T) {
	e := setup(t, unlimited)
	e.signUp(t, string(ada))
	users := e.users(t)
	for n := range user.NetworkPace.AtOnce + 1 {
		_, err := users.LogIn(t.Context(), string(ada), "wrong horse", user.From{Network: "home"})
		if fault.Is(err, fault.RateLimitExceeded) != (n == user.NetworkPace.AtOnce) {
			t.Errorf("attempt %d: got %t, want %t", n+1, fault.Is(err, fault.RateLimitExceeded), n == user.NetworkPace.AtOnce)
		}
	}
	if n := scan[int](t, e, `SELECT count(*) FROM sign_in_count`); n != 1 {
		t.Errorf("got %d rows, want that of the known network alone", n)
	}
	if _, err := users.LogIn(t.Context(), string(ada), password, user.From{Network: "b"}); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
	if _, err := users.LogIn(t.Context(), string(ada), password, user.From{Network: "home"}); !fault.Is(err,
		fault.RateLimitExceeded) {
		t.Errorf("after signing in elsewhere: got the error %v, want the reason %v", err, fault.RateLimitExceeded)
	}
	if _, err := users.LogIn(t.Context(), string(ada), password, user.From{
		Network: strings.Repeat("n", 65)}); !fault.Is(err,
		fault.InvalidValue) {
		t.Errorf("a long network: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}

func TestWhoSignsInRightIsNotCounted(t *testing.T) {
	e := setup(t, unlimited)
	e.signUp(t, string(ada))
	users := e.users(t)
	for range user.NetworkPace.AtOnce + 2 {
		if _, err := users.LogIn(t.Context(), "ADA@example.com", password, user.From{Network: "net"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := scan[int](t, e, `SELECT count(*) FROM sign_in_count WHERE full_at > now()`); n != 0 {
		t.Errorf("got %d rows that count, want none", n)
	}
	if _, err := users.LogIn(t.Context(), string(ada), "wrong horse", user.From{Network: "net"}); !fault.Is(err,
		fault.InvalidCredentials) {
		t.Errorf("got the error %v, want the reason %v", err, fault.InvalidCredentials)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM sign_in_count WHERE full_at > now()`); n != 1 {
		t.Errorf("got %d rows that count, want that of the failure", n)
	}
}

// gone is a store whose caller goes as soon as the attempt is counted.
type gone struct {
	user.Store
	leave context.CancelFunc
}

func (g gone) TakeAttempt(ctx context.Context, e user.Email, network user.Digest) (user.Attempt, error) {
	defer g.leave()
	return g.Store.TakeAttempt(ctx, e, network)
}

// Whoever found no place, or met an outage, has guessed nothing.
func TestAnAttemptThatComparedNothingIsTakenBack(t *testing.T) {
	e := setup(t, unlimited)
	users := e.users(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		users.Store = gone{e.store, cancel}
		if _, err := users.LogIn(ctx, string(ada), "wrong horse", user.From{Network: "net"}); err == nil ||
			fault.Is(err, fault.InvalidCredentials) {
			t.Errorf("got %v, want that nothing was compared", err)
		}
	}
	if rows, counting := scan[int](t, e, `SELECT count(*) FROM sign_in_count`),
		scan[int](t, e, `SELECT count(*) FROM sign_in_count WHERE full_at > now()`); rows != 2 || counting != 0 {
		t.Errorf("got %d rows, of which %d count, want 2 and none", rows, counting)
	}
}

// Of the networks of a user the last eight are known, each for thirty days.
func TestKnownNetworksAreBoundedInNumberAndAge(t *testing.T) {
	e := setup(t, unlimited)
	in, _ := e.signUp(t, string(ada))
	known := func(n int) bool {
		t.Helper()
		a, _ := e.take(t, e.store, ada, from(n))
		return a.Known
	}
	open := func(n int) {
		t.Helper()
		f, _ := newFamily(t)
		if _, err := e.store.OpenSession(t.Context(), in.User, user.Attempt{Network: from(n)}, f); err != nil {
			t.Error(err)
		}
	}
	for n := range user.MaxNetworks {
		open(n)
	}
	open(0) // used last
	open(user.MaxNetworks)
	switch {
	case !known(0):
		t.Error("the ninth network and the least recently used: known(0): got false, want true")
	case known(1):
		t.Error("the ninth network and the least recently used: known(1): got true, want false")
	case !known(2):
		t.Error("the ninth network and the least recently used: known(2): got false, want true")
	case !known(user.MaxNetworks):
		t.Error("the ninth network and the least recently used: known(user.MaxNetworks): got false, want true")
	}
	var racers sync.WaitGroup
	for n := range 20 {
		racers.Go(func() { open(100 + n) })
	}
	racers.Wait()
	if n := scan[int](t, e, `SELECT count(*) FROM known_network`); n != user.MaxNetworks {
		t.Errorf("got %d known networks, want %d", n, user.MaxNetworks)
	}
	open(3)
	e.exec(t, `UPDATE known_network SET used_at = now() - interval '30 days'`)
	if known(3) {
		t.Error("a network is known thirty days after its last sign-in")
	}
	for _, want := range []int{5, 3, 0} {
		if n, err := e.store.PruneNetworks(t.Context(), 5); n != want || err != nil {
			t.Errorf("got %d networks forgotten, %v, want %d", n, err, want)
		}
	}
}

// Whatever e-mails and networks somebody names: an attempt keeps two rows, and each
// for as long as it takes to be free again.
func TestAttemptsAreForgottenOnceTheyCountNoMore(t *testing.T) {
	e := setup(t, unlimited)
	const tries = 7
	for n := range tries {
		e.take(t, e.store, user.Email(fmt.Sprintf("nobody-%d@example.org", n)), from(n))
	}
	for _, c := range []struct {
		after string
		want  int
	}{{"35 seconds", 0}, {"1 second", tries}, {"4 seconds", tries}, {"0", 0}} {
		e.exec(t, `UPDATE sign_in_count SET full_at = full_at - $1::interval`, c.after)
		if n, err := e.store.PruneAttempts(t.Context(), 1000); n != c.want || err != nil {
			t.Errorf("%s later: got %d rows forgotten, %v, want %d", c.after, n, err, c.want)
		}
	}
	if n := scan[int](t, e, `SELECT count(*) FROM sign_in_count`); n != 0 {
		t.Errorf("got %d rows left, want none", n)
	}
}
