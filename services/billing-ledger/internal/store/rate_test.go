package store_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/store"
)

// TestAReadOfARateIsWhatAdmissionSaysNext reads from one replica how much of the rate
// remains, and then asks the other replica for an admission at the same moment. It does
// both again and again as time goes on.
func TestAReadOfARateIsWhatAdmissionSaysNext(t *testing.T) {
	const perMinute, own, every = 7, 3, 8_571_429 * time.Microsecond
	limits := unlimited
	limits.LLMPerMinute, limits.ImagePerMinute = perMinute, perMinute
	e := setup(t, limits)
	clock := newDatabaseClock(t, e)
	var replicas []*store.Store
	for _, pool := range e.pools(t, 2, map[string]string{"search_path": clock.searchPath}) {
		replicas = append(replicas, store.New(pool, limits, terms))
	}
	c := e.consumer(t, money.USD)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	now := time.Now().Truncate(time.Microsecond)
	refused := 0
	for step := range 120 {
		if step == 60 {
			if _, err := e.accounts.SetLimits(t.Context(), c.account, limit.Limits{RequestsPerMinute: own}); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add([]time.Duration{0, 0, 0, every, every - time.Microsecond, time.Second, time.Minute}[random.IntN(7)])
		clock.set(t, now)
		reservation := e.reservation(t, c, 0)
		reservation.Class = []limit.Class{limit.LLM, limit.LLM, limit.LLM, limit.Image}[random.IntN(4)]
		read, err := replicas[0].ReadRate(t.Context(), c.key, reservation.Class)
		if err != nil {
			t.Fatal(err)
		}
		verdicts, err := replicas[1].Admit(t.Context(), []hold.Reservation{reservation})
		if err != nil {
			t.Fatal(err)
		}
		told := verdicts[0].Admission.Rate
		if verdicts[0].Outcome == hold.RateLimited {
			refused++
			if read != told {
				t.Fatalf("seed %d, step %d: read: got %+v, want %+v", seed, step, read, told)
			}
			continue
		}
		step1 := every
		if step >= 60 {
			step1 = 20 * time.Second
		}
		switch {
		case verdicts[0].Outcome != hold.Admitted:
			t.Fatalf("seed %d, step %d: verdicts[0].Outcome: got %q, want %q", seed, step, verdicts[0].Outcome, hold.Admitted)
		case told.Limit != read.Limit:
			t.Fatalf("seed %d, step %d: told.Limit: got %d, want %d", seed, step, told.Limit, read.Limit)
		case told.Remaining != read.Remaining-1:
			t.Fatalf("seed %d, step %d: told.Remaining: got %d, want %d", seed, step, told.Remaining, read.Remaining-1)
		case told.Reset != read.Reset+step1:
			t.Fatalf("seed %d, step %d: told.Reset: got %v, want %v", seed, step, told.Reset, read.Reset+step1)
		}
	}
	if refused == 0 {
		t.Errorf("seed %d: refusals: got 0, want any but 0", seed)
	}
}

func TestAReadOfARateTakesNothing(t *testing.T) {
	limits := unlimited
	limits.LLMPerMinute = 2
	e := setup(t, limits)
	c := e.consumer(t, money.USD)
	for range 5 {
		if got, err := e.store.ReadRate(t.Context(), c.key, limit.LLM); err != nil {
			t.Fatalf("got the error %v, want none", err)
		} else if got != (limit.Rate{Limit: 2, Remaining: 2}) {
			t.Fatalf("e.store.ReadRate(…): got %+v, want %+v", got, limit.Rate{Limit: 2, Remaining: 2})
		}
	}
	if n := scan[int](t, e, `SELECT count(*) FROM key_rate`); n != 0 {
		t.Errorf("rows written: got %d, want 0", n)
	}
	e.admitOne(t, e.reservation(t, c, 0), hold.Admitted)
	if got, err := e.store.ReadRate(t.Context(), c.key, limit.Image); err != nil {
		t.Errorf("of a class without limit: got the error %v, want none", err)
	} else if got != (limit.Rate{}) {
		t.Errorf("of a class without limit: e.store.ReadRate(…): got %+v, want %+v", got, limit.Rate{})
	}
	e.rest(t, -90*24*time.Hour) // of another time, and nobody waits for it
	if got, err := e.store.ReadRate(t.Context(), c.key, limit.LLM); err != nil {
		t.Errorf("with a clock set back by months: got the error %v, want none", err)
	} else if got.Remaining != 2 {
		t.Errorf("with a clock set back by months: Remaining: got %d, want 2", got.Remaining)
	}
	if _, err := e.accounts.SetLimits(t.Context(), c.account,
		limit.Limits{RequestsPerMinute: limit.Unlimited}); err != nil {
		t.Fatal(err)
	}
	if got, err := e.store.ReadRate(t.Context(), c.key, limit.LLM); err != nil {
		t.Errorf("of an account without limit: got the error %v, want none", err)
	} else if got != (limit.Rate{}) {
		t.Errorf("of an account without limit: e.store.ReadRate(…): got %+v, want %+v", got, limit.Rate{})
	}
	if _, err := e.store.ReadRate(t.Context(), ids.KeyID(e.price), limit.LLM); !errors.Is(err, limit.ErrNoKey) {
		t.Errorf("of an unknown key: got the error %v, want %v", err, limit.ErrNoKey)
	}
}

// BenchmarkReadRate is a gateway's question, the way to the database and back
// included.
func BenchmarkReadRate(b *testing.B) {
	limits := unlimited
	limits.LLMPerMinute = 200
	e := setup(b, limits)
	c := e.consumer(b, money.USD)
	e.admitOne(b, e.reservation(b, c, 0), hold.Admitted)
	for b.Loop() {
		if _, err := e.store.ReadRate(b.Context(), c.key, limit.LLM); err != nil {
			b.Fatal(err)
		}
	}
}
