package store_test

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/idempotency"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// ask is for a new request with a new token.
func ask(t testing.TB, c consumer) idempotency.Ask {
	t.Helper()
	return idempotency.Ask{
		Key: c.key, Token: sha256.Sum256([]byte(rand.Text())), Content: sha256.Sum256([]byte("body")), Request: request(t),
	}
}

// again is the same request made anew.
func again(t testing.TB, a idempotency.Ask) idempotency.Ask {
	t.Helper()
	a.Request = request(t)
	return a
}

// wantStanding asks and wants to be told so of the request that has the claim.
func wantStanding(
	t testing.TB, st *store.Store, a idempotency.Ask, want idempotency.Decision, holder ids.RequestID,
) idempotency.Answer {
	t.Helper()
	read, err := st.ReadKey(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	got, err := st.ClaimKey(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if final := read.Standing != idempotency.Granted && read.Standing != idempotency.Lapsed; final &&
		read.Standing != got.Standing {
		t.Fatalf("it is read to stand: got %d, want %d, where final", read.Standing, got.Standing)
	} else if final && read.Request != got.Request {
		t.Fatalf("read.Request: got %v, want %v, where final", read.Request, got.Request)
	}
	if got.Standing != want {
		t.Fatalf("the claim stands: got %d, want %d", got.Standing, want)
	}
	if got.Request != holder {
		t.Fatalf("Request: got %v, want %v", got.Request, holder)
	}
	return got
}

func finish(t testing.TB, st *store.Store, a idempotency.Ask, state idempotency.State, sealed ...byte) {
	t.Helper()
	endWith(t, st, a, state, roomyQuota, sealed)
}

// roomyQuota is the service's.
var roomyQuota = idempotency.Quota{OfAccount: idempotency.KeptOfAccount, InAll: 16 << 30}

func endWith(
	t testing.TB, st *store.Store, a idempotency.Ask, state idempotency.State, quota idempotency.Quota, sealed []byte,
) idempotency.Outcome {
	t.Helper()
	outcome, err := st.FinishKey(t.Context(), idempotency.End{Key: a.Key, Token: a.Token, Request: a.Request, State: state,
		Sealed: sealed}, quota)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// lapse ends all leases on claims.
func (e *env) lapse(t testing.TB) {
	t.Helper()
	e.exec(t, `UPDATE idempotency_claim SET leased_until = now() - interval '1 second'`)
}

func TestOfAHundredRacingClaimersOneIsGranted(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	replicas := e.replicas(t, 2, nil)
	for _, before := range []string{"nothing", "a lapsed claim", "an answer that is over"} {
		a := ask(t, c)
		switch before {
		case "a lapsed claim":
			wantStanding(t, e.store, a, idempotency.Granted, a.Request)
			e.lapse(t)
		case "an answer that is over":
			wantStanding(t, e.store, a, idempotency.Granted, a.Request)
			finish(t, e.store, a, idempotency.Answered, 1)
			e.exec(t, `UPDATE idempotency_claim SET expires_at = now()`)
		}
		var mu sync.Mutex
		seen := map[idempotency.Decision]int{}
		holders := map[ids.RequestID]bool{}
		var racers sync.WaitGroup
		for i := range 100 {
			mine := again(t, a)
			racers.Go(func() {
				got, err := replicas[i%2].ClaimKey(t.Context(), mine)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[got.Standing]++
				holders[got.Request] = true
			})
		}
		racers.Wait()
		switch {
		case seen[idempotency.Granted] != 1:
			t.Errorf("after %s: seen[idempotency.Granted]: got %d, want 1", before, seen[idempotency.Granted])
		case seen[idempotency.Busy] != 99:
			t.Errorf("after %s: seen[idempotency.Busy]: got %d, want 99", before, seen[idempotency.Busy])
		case len(holders) != 1:
			t.Errorf("after %s: len(holders): got %d, want 1", before, len(holders))
		}
	}
	e.wantLive(t, c, 3)
}

// wantLive compares the count of a key's claims with the rows.
func (e *env) wantLive(t testing.TB, c consumer, want int) {
	t.Helper()
	live := scan[int](t, e, `SELECT live FROM idempotency_quota WHERE key_id = $1`, [16]byte(c.key))
	rows := scan[int](t, e, `SELECT count(*) FROM idempotency_claim WHERE key_id = $1`, [16]byte(c.key))
	if live != want {
		t.Errorf("%d claims are counted and %d are there: live: got %d, want %d", live, rows, live, want)
	} else if rows != want {
		t.Errorf("%d claims are counted and %d are there: rows: got %d, want %d", live, rows, rows, want)
	}
}

func TestARepeatIsToldHowTheFirstEnded(t *testing.T) {
	e := setup(t, unlimited)
	c, another := e.consumer(t, 0), e.consumer(t, 0)
	a := ask(t, c)
	wantStanding(t, e.store, a, idempotency.Granted, a.Request)
	wantStanding(t, e.store, a, idempotency.Granted, a.Request) // renewed
	wantStanding(t, e.store, again(t, a), idempotency.Busy, a.Request)
	foreign := again(t, a)
	foreign.Key = another.key
	wantStanding(t, e.store, foreign, idempotency.Granted, foreign.Request)
	other := again(t, a)
	other.Content = sha256.Sum256([]byte("another body"))
	wantStanding(t, e.store, other, idempotency.Reused, a.Request)

	// Only the holder is heard, and once.
	finish(t, e.store, again(t, a), idempotency.Answered, 9)
	wantStanding(t, e.store, again(t, a), idempotency.Busy, a.Request)
	finish(t, e.store, a, idempotency.Answered, 1, 2, 3)
	finish(t, e.store, a, idempotency.NotKept)
	finish(t, e.store, a, idempotency.Forget)
	if got := wantStanding(t, e.store, again(t, a), idempotency.Replay, a.Request); string(got.Sealed) != "\x01\x02\x03" {
		t.Errorf("the answer: got %q, want %q", string(got.Sealed), "\x01\x02\x03")
	}
	wantStanding(t, e.store, other, idempotency.Reused, a.Request)

	b := ask(t, c)
	wantStanding(t, e.store, b, idempotency.Granted, b.Request)
	finish(t, e.store, b, idempotency.NotKept)
	wantStanding(t, e.store, again(t, b), idempotency.Gone, b.Request)

	f := ask(t, c)
	wantStanding(t, e.store, f, idempotency.Granted, f.Request)
	finish(t, e.store, f, idempotency.Forget)
	next := again(t, f)
	next.Content = sha256.Sum256([]byte("what is forgotten binds nobody"))
	wantStanding(t, e.store, next, idempotency.Granted, next.Request)
	e.wantLive(t, c, 3)
}

// What may be billed, or was, is never run again; what cost nothing is.
func TestAClaimWithoutAnEndFollowsItsHold(t *testing.T) {
	const granted, busy, gone = idempotency.Granted, idempotency.Busy, idempotency.Gone
	for name, end := range map[string]func(t *testing.T, e *env, a idempotency.Ask){
		"lapses":       func(t *testing.T, e *env, _ idempotency.Ask) { e.lapse(t) },
		"is forgotten": func(t *testing.T, e *env, a idempotency.Ask) { finish(t, e.store, a, idempotency.Forget) },
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, money.USD)
			holder := func() (idempotency.Ask, hold.Reservation) {
				reservation, a := e.reservation(t, c, 4), ask(t, c)
				a.Request = reservation.Request
				e.admitOne(t, reservation, hold.Admitted)
				wantStanding(t, e.store, a, granted, a.Request)
				return a, reservation
			}
			want := func(a idempotency.Ask, want idempotency.Decision) {
				t.Helper()
				mine := again(t, a)
				by := a.Request
				if want == granted {
					by = mine.Request
				}
				wantStanding(t, e.store, mine, want, by)
			}

			never := ask(t, c)
			wantStanding(t, e.store, never, granted, never.Request)
			end(t, e, never)
			want(never, granted)

			released, _ := holder()
			e.release(t, released.Request)
			end(t, e, released)
			want(released, granted)

			settled, reservation := holder()
			e.settle(t, usage.Settled, e.served(t, reservation, 3))
			end(t, e, settled)
			want(settled, gone)

			atNothing, reservation := holder()
			e.settle(t, usage.Settled, e.served(t, reservation, 0))
			end(t, e, atNothing)
			want(atNothing, granted)

			open, reservation := holder()
			end(t, e, open)
			want(open, busy)
			renewal := hold.Renewal{Request: reservation.Request, CommittedAttempt: 1, Hub: "hub-1",
				Provider: e.served(t, reservation, 1).Event.Provider, RelayedTokens: 1, RelayedBytes: 1}
			if _, _, err := e.store.Renew(t.Context(), []hold.Renewal{renewal}); err != nil {
				t.Fatal(err)
			}
			want(open, gone)

			undecided, reservation := holder()
			end(t, e, undecided)
			want(undecided, busy)
			e.settle(t, usage.Settled, e.served(t, reservation, 3))
			want(undecided, gone)

			given, _ := holder()
			end(t, e, given)
			want(given, busy)
			e.release(t, given.Request)
			want(given, granted)
		})
	}
}

// What is free costs nothing however much was served, and is run again; what a
// plan covers is not.
func TestAClaimOfWhatIsFreeIsClaimedAnew(t *testing.T) {
	e := setup(t, unlimited)
	zero, covered := e.consumer(t, 0), e.subscriber(t, 0, roomy)
	for _, tc := range []struct {
		of                  consumer
		reservation         hold.Reservation
		meanwhile, afterall idempotency.Decision
	}{
		{zero, e.free(t, zero), idempotency.Busy, idempotency.Granted},
		{covered, e.standard(t, covered, 10), idempotency.Gone, idempotency.Gone},
	} {
		a := ask(t, tc.of)
		a.Request = tc.reservation.Request
		e.admitOne(t, tc.reservation, hold.Admitted)
		wantStanding(t, e.store, a, idempotency.Granted, a.Request)
		e.conclude(t, servedWord(a.Request, 3))
		e.lapse(t)
		wantStanding(t, e.store, again(t, a), tc.meanwhile, a.Request)
		e.settle(t, usage.Settled, e.served(t, tc.reservation, 3))
		mine := again(t, a)
		by := a.Request
		if tc.afterall == idempotency.Granted {
			by = mine.Request
		}
		wantStanding(t, e.store, mine, tc.afterall, by)
	}
}

// A request may go on as another, with the next of its consumer's models.
func TestAClaimFollowsARequestThatWentOnAsAnother(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	first, second, third := e.reservation(t, c, 4), e.reservation(t, c, 4), e.reservation(t, c, 4)
	a := ask(t, c)
	a.Request = first.Request
	wantStanding(t, e.store, a, idempotency.Granted, a.Request)
	for _, leg := range []struct{ from, to hold.Reservation }{{first, second}, {second, third}} {
		e.admitOne(t, leg.from, hold.Admitted)
		if _, _, err := e.store.Conclude(t.Context(), []hold.RequestReport{{
			Request: leg.from.Request, Outcome: "failed", HTTPStatus: 502, Attempts: []hold.Attempt{},
			ContinuedAs: leg.to.Request,
		}}); err != nil {
			t.Fatal(err)
		}
	}
	e.admitOne(t, third, hold.Admitted)
	e.lapse(t)
	wantStanding(t, e.store, again(t, a), idempotency.Busy, a.Request)
	e.settle(t, usage.Settled, e.served(t, third, 3))
	wantStanding(t, e.store, again(t, a), idempotency.Gone, a.Request)
}

func TestWhoLostTheClaimCannotEndIt(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	late := ask(t, c)
	wantStanding(t, e.store, late, idempotency.Granted, late.Request)
	e.lapse(t)
	next := again(t, late)
	wantStanding(t, e.store, next, idempotency.Granted, next.Request)
	for _, state := range []idempotency.State{idempotency.Forget, idempotency.NotKept} {
		finish(t, e.store, late, state)
	}
	finish(t, e.store, late, idempotency.Answered, 1)
	wantStanding(t, e.store, late, idempotency.Busy, next.Request)
}

func TestAKeyHasAtMostTenThousandClaims(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	first := ask(t, c)
	wantStanding(t, e.store, first, idempotency.Granted, first.Request)
	// As the application's role: the count is the database's own.
	if _, err := e.pool.Exec(t.Context(), `INSERT INTO idempotency_claim
		(key_id, token_sha256, request_sha256, request_id, leased_until, expires_at)
		SELECT $1, sha256(n::text::bytea), sha256(''), gen_random_uuid(), now() + interval '1 minute',
			now() + interval '1 day'
		FROM generate_series(1, 9998) n`, [16]byte(c.key)); err != nil {
		t.Fatal(err)
	}
	replicas := e.replicas(t, 2, nil)
	var mu sync.Mutex
	var granted, refused int
	var racers sync.WaitGroup
	for i := range 10 {
		mine := ask(t, c)
		racers.Go(func() {
			_, err := replicas[i%2].ClaimKey(t.Context(), mine)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				granted++
			case fault.Is(err, fault.RateLimitExceeded):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	racers.Wait()
	if granted != 1 {
		t.Errorf("%d are granted and %d refused where one has room: granted: got %d, want 1", granted, refused, granted)
	} else if refused != 9 {
		t.Errorf("%d are granted and %d refused where one has room: refused: got %d, want 9", granted, refused, refused)
	}
	// Those that there are go on, and what is over makes room by itself.
	wantStanding(t, e.store, first, idempotency.Granted, first.Request)
	wantStanding(t, e.store, again(t, first), idempotency.Busy, first.Request)
	e.exec(t, `UPDATE idempotency_claim SET expires_at = now()
		WHERE token_sha256 IN (SELECT sha256(n::text::bytea) FROM generate_series(1, 5) n)`)
	roomy := ask(t, c)
	wantStanding(t, e.store, roomy, idempotency.Granted, roomy.Request)
	e.wantLive(t, c, idempotency.MaxLive-4)
}

func TestClaimsAreForgottenAfterADayInBatches(t *testing.T) {
	e := setup(t, unlimited)
	c, busy := e.consumer(t, 0), e.consumer(t, 0)
	for range 5 {
		a := ask(t, c)
		wantStanding(t, e.store, a, idempotency.Granted, a.Request)
	}
	held := ask(t, busy)
	wantStanding(t, e.store, held, idempotency.Granted, held.Request)
	if early := scan[int](t, e, `SELECT count(*) FROM idempotency_claim
		WHERE expires_at NOT BETWEEN now() + interval '23 hours' AND now() + interval '24 hours'`); early != 0 {
		t.Errorf("claims that live for other than a day: got %d, want 0", early)
	}
	e.exec(t, `UPDATE idempotency_claim SET expires_at = now() - interval '1 second'`)
	// A key that is being worked on is passed over and not waited for.
	tx, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM idempotency_quota WHERE key_id = $1 FOR UPDATE`,
		[16]byte(busy.key)); err != nil {
		t.Fatal(err)
	}
	var pruned []int
	for range 3 {
		n, err := e.store.PruneClaims(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		pruned = append(pruned, n)
	}
	if pruned[0] > 3 {
		t.Errorf("batches of 3 took: pruned[0]: got %d, want at most 3", pruned[0])
	} else if pruned[0]+pruned[1]+pruned[2] != 5 {
		t.Errorf("batches of 3 took: pruned[0]+pruned[1]+pruned[2]: got %d, want 5", pruned[0]+pruned[1]+pruned[2])
	}
	e.wantLive(t, c, 0)
	e.wantLive(t, busy, 1)
}

func TestAnUnknownKeyClaimsNothing(t *testing.T) {
	e := setup(t, unlimited)
	a := ask(t, consumer{key: ids.KeyID{1}})
	if _, err := e.store.ClaimKey(t.Context(), a); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("an unknown key: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}
