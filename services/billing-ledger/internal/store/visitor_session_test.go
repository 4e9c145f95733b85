package store_test

import (
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/playground"
)

// session is one of a network, with a secret that nobody guesses.
func session(network byte) playground.Session {
	s := playground.Session{Network: limit.Address{network}}
	_, _ = rand.Read(s.Secret[:])
	return s
}

func (e *env) openSession(t testing.TB, s playground.Session) playground.Opened {
	t.Helper()
	opened, err := e.store.OpenVisitorSession(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func (e *env) wantSession(t testing.TB, what string, network limit.Address, secret playground.Secret, want bool) {
	t.Helper()
	got, err := e.store.HasVisitorSession(t.Context(), network, secret)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s: HasVisitorSession: got %t, want %t", what, got, want)
	}
}

// sessionsAge puts the end of all sessions so far into the past.
func (e *env) sessionsAge(t testing.TB, by string) {
	t.Helper()
	e.exec(t, `UPDATE visitor_session SET opened_at = opened_at - $1::interval,
		expires_at = expires_at - $1::interval`, by)
}

func TestASessionIsGoodForAnHourInItsOwnNetwork(t *testing.T) {
	e := setup(t, unlimited)
	s := session(1)
	opened := e.openSession(t, s)
	if !opened.New {
		t.Error("opened.New: got false, want true")
	}
	if left := time.Until(opened.ExpiresAt); left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("time.Until(opened.ExpiresAt): got %v, want an hour", left)
	}
	e.wantSession(t, "its own network", s.Network, s.Secret, true)
	e.wantSession(t, "another network", limit.Address{2}, s.Secret, false)
	e.wantSession(t, "a guess", s.Network, session(1).Secret, false)
	e.wantSession(t, "no secret", s.Network, playground.Secret{}, false)
	e.sessionsAge(t, "61 minutes")
	e.wantSession(t, "after an hour", s.Network, s.Secret, false)
}

func TestASessionThatIsLiveStandsAndNoOtherIsOpened(t *testing.T) {
	e := setup(t, unlimited)
	first := session(1)
	opened := e.openSession(t, first)
	if again := e.openSession(t, first); again != opened {
		t.Errorf("the same again: got %v, want %v", again, opened)
	}
	later := session(1)
	later.Held = first.Secret
	switch got := e.openSession(t, later); {
	case got.New:
		t.Error("with a live session: New: got true, want false")
	case !got.ExpiresAt.Equal(opened.ExpiresAt):
		t.Errorf("with a live session: ExpiresAt: got %v, want %v", got.ExpiresAt, opened.ExpiresAt)
	}
	e.wantSession(t, "the one that was not needed", later.Network, later.Secret, false)
	elsewhere := session(2)
	elsewhere.Held = first.Secret
	if got := e.openSession(t, elsewhere); !got.New {
		t.Error("with a session of another network: New: got false, want true")
	}
	e.sessionsAge(t, "61 minutes")
	if got := e.openSession(t, later); !got.New {
		t.Error("with a session that is over: New: got false, want true")
	}
}

func TestOfFortyRacingSessionsOfANetworkSixteenAreOpened(t *testing.T) {
	e := setup(t, unlimited)
	replicas := e.replicas(t, 2, nil)
	var mu sync.Mutex
	opened, refused := 0, 0
	var racers sync.WaitGroup
	for i := range 40 {
		racers.Go(func() {
			_, err := replicas[i%2].OpenVisitorSession(t.Context(), session(1))
			mu.Lock()
			defer mu.Unlock()
			var full *playground.NetworkFullError
			switch {
			case err == nil:
				opened++
			case errors.As(err, &full) && full.Wait > 59*time.Minute && full.Wait <= time.Hour:
				refused++
			default:
				t.Errorf("got the error %v, want a NetworkFullError with most of an hour to wait", err)
			}
		})
	}
	racers.Wait()
	if opened != 16 {
		t.Errorf("opened: got %d, want 16", opened)
	}
	if refused != 24 {
		t.Errorf("refused: got %d, want 24", refused)
	}
	e.openSession(t, session(2))
	if live := scan[int](t, e, `SELECT live FROM visitor_session_count`); live != 17 {
		t.Errorf("live: got %d, want 17", live)
	}
	e.sessionsAge(t, "61 minutes")
	e.openSession(t, session(1))
	if live := scan[int](t, e, `SELECT live FROM visitor_session_count`); live != 2 {
		t.Errorf("live, once those of the network are over: got %d, want 2", live)
	}
}

func TestSessionsInAllAreBounded(t *testing.T) {
	e := setup(t, unlimited)
	e.exec(t, `UPDATE visitor_session_count SET live = 99999`)
	e.openSession(t, session(1))
	if _, err := e.store.OpenVisitorSession(t.Context(), session(2)); !errors.Is(err, playground.ErrFull) {
		t.Errorf("one more: got the error %v, want %v", err, playground.ErrFull)
	}
	// The database refuses it, too.
	refusedSQL(t, e, "visitor_session_count_bounds",
		`INSERT INTO visitor_session VALUES (sha256('x'), sha256('y'), 1, now(), now() + interval '1 hour')`)
}

func TestSessionsThatAreOverArePruned(t *testing.T) {
	e := setup(t, unlimited)
	for i := range byte(5) {
		e.openSession(t, session(i))
	}
	e.sessionsAge(t, "61 minutes")
	live := session(9)
	e.openSession(t, live)
	for _, want := range []int{2, 2, 1, 0} {
		n, err := e.store.PruneVisitorSessions(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("pruned: got %d, want %d", n, want)
		}
	}
	if counted := scan[int](t, e, `SELECT live FROM visitor_session_count`); counted != 1 {
		t.Errorf("counted: got %d, want 1", counted)
	}
	e.wantSession(t, "the live one", live.Network, live.Secret, true)
}

// One holder has a wider network of many networks. Its sessions cannot fill the table, and other holders have room.
func TestRacingSessionsOfAWiderNetworkAreThoseOfSixteenNetworks(t *testing.T) {
	e := setup(t, unlimited)
	replicas := e.replicas(t, 2, nil)
	var mu sync.Mutex
	opened, refused := 0, 0
	var racers sync.WaitGroup
	const racing = playground.MaxOpenings + 30
	for i := range racing {
		racers.Go(func() {
			s := session(1)
			s.Network, s.Wider = limit.Address{1, byte(i), byte(i >> 8)}, limit.Address{0xaa}
			_, err := replicas[i%2].OpenVisitorSession(t.Context(), s)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				opened++
				return
			}
			refused++
			f, _ := fault.As(err)
			switch {
			case f == nil:
				t.Errorf("got the error %v, want a fault", err)
			case f.Reason != fault.RateLimitExceeded:
				t.Errorf("f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
			case f.RetryAfter < 59*time.Minute:
				t.Errorf("f.RetryAfter: got %v, want most of an hour", f.RetryAfter)
			}
		})
	}
	racers.Wait()
	if opened != playground.MaxOpenings {
		t.Errorf("opened: got %d, want %d", opened, playground.MaxOpenings)
	}
	if want := racing - playground.MaxOpenings; refused != want {
		t.Errorf("refused: got %d, want %d", refused, want)
	}
	elsewhere := session(200)
	elsewhere.Wider = limit.Address{0xbb}
	e.openSession(t, elsewhere)
	e.openSession(t, session(201)) // an IPv4 address has no wider network
}

// A page that is loaded again must not use up what others of the wider network may open.
func TestASessionThatStandsIsNotCountedForItsWiderNetwork(t *testing.T) {
	e := setup(t, unlimited)
	held := session(1)
	held.Wider = limit.Address{0xaa}
	e.openSession(t, held)
	for range playground.MaxOpenings {
		again := session(1)
		again.Held, again.Wider = held.Secret, held.Wider
		if got := e.openSession(t, again); got.New {
			t.Fatal("with a live session: New: got true, want false")
		}
	}
	other := session(2)
	other.Wider = held.Wider
	if got := e.openSession(t, other); !got.New {
		t.Error("another network: New: got false, want true")
	}
}
