package slice

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

func TestOnlyABusyAccountGetsASlice(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.saw(busy - 1)
		pass(t, busyWithin+time.Millisecond)
		b.saw(busy - 1)
		pass(t, Every)
		if b.isOpen() {
			t.Errorf("%d requests in a second: got a slice, want none", busy-1)
		}
		b.saw(1)
		pass(t, Every)
		if !b.isOpen() {
			t.Errorf("%d requests in a second: got no slice, want one by the next turn", busy)
		}
	})
}

func TestWhatIsNotPlainDoesNotMakeAnAccountBusy(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		vendor := b.request(1)
		vendor.Gateway = true
		admission := hold.Admission{Account: b.account.id, Billing: hold.PayAsYouGo}
		planned, cheap := admission, admission
		planned.Billing, cheap.Discount = hold.Plan, 1
		for range 2 * busy {
			b.Saw(vendor, hold.Decision{Outcome: hold.Admitted, Admission: admission})
			b.Saw(b.request(1), hold.Decision{Outcome: hold.Admitted, Admission: planned})
			b.Saw(b.request(1), hold.Decision{Outcome: hold.Admitted, Admission: cheap})
			b.Saw(b.request(1), hold.Decision{Outcome: hold.RateLimited, Admission: admission})
		}
		if got := b.Open(); got != 0 {
			t.Errorf("got %d accounts that want a slice, want none", got)
		}
	})
}

func TestAnAccountThatIsNotPlainIsLeftAloneForAMinute(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.plain = false
		b.saw(busy)
		pass(t, Every)
		same(t, "turns", b.spy.taken(), 1)
		for range 58 {
			b.saw(busy)
			pass(t, busyWithin)
		}
		same(t, "turns within a minute", b.spy.taken(), 1)
		pass(t, 2*time.Second)
		b.saw(busy)
		pass(t, Every)
		if got := b.spy.taken(); got != 2 {
			t.Errorf("got %d turns after a minute, want 2", got)
		}
	})
}

func TestWhatIsInDoubtIsLeftToTheExactPath(t *testing.T) {
	for name, c := range map[string]struct {
		world func(b *bundle)
		told  func(st *State)
		ask   func(r *hold.Reservation)
		wait  time.Duration
	}{
		"a key that nobody knows":         {ask: func(r *hold.Reservation) { r.Key[0] = 9 }},
		"a key that is revoked":           {told: func(st *State) { st.Keys[0].Refusal = hold.KeyRevoked }},
		"a key that may have expired":     {told: func(st *State) { st.Keys[0].Until = time.Now() }},
		"a model that the key may not":    {told: func(st *State) { st.Keys[0].Models = []string{"other"} }},
		"an account that is frozen":       {told: func(st *State) { st.Account.Frozen = true }},
		"an account that left too often":  {told: func(st *State) { st.Account.LeftOften = time.Minute }},
		"a vendor's model":                {ask: func(r *hold.Reservation) { r.Gateway = true }},
		"a class that nobody knows":       {ask: func(r *hold.Reservation) { r.Class = limit.Classes + 1 }},
		"no class":                        {ask: func(r *hold.Reservation) { r.Class = 0 }},
		"an old id":                       {ask: setID(-maxIDAge - time.Millisecond)},
		"an id of the future":             {ask: setID(maxIDAhead + 2*time.Millisecond)},
		"a rate that is nearly used up":   {told: func(st *State) { st.Keys[0].Limits[limit.LLM-1] = 1 + margin }},
		"a shared rate nearly used up":    {told: nearlyZero, ask: func(r *hold.Reservation) { r.ZeroPriced = true }},
		"a request that costs too much":   {ask: func(r *hold.Reservation) { r.Amount = money.USD }},
		"more requests than may be":       {told: func(st *State) { st.Account.Open = st.Account.MaxOpen }},
		"a slice without places":          {told: func(st *State) { st.Places = 0 }},
		"a slice without credit":          {told: func(st *State) { st.Amount = 0 }},
		"an owner who wrote too long ago": {wait: Trust},
	} {
		t.Run(name, func(t *testing.T) {
			setup(t, func(t *testing.T, b *bundle) {
				b.spy.told = c.told
				b.open(t)
				if c.wait > 0 {
					b.admit(t, 1)
					b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
					pass(t, c.wait)
				}
				r := b.request(10)
				if c.ask != nil {
					c.ask(&r)
				}
				before := b.Waiting()
				if _, _, ok := b.Admit(t.Context(), r); ok {
					t.Error("got an admission, want doubt")
				}
				if got := b.Waiting(); got != before {
					t.Errorf("got %d unwritten requests, want %d", got, before)
				}
			})
		})
	}
}

func setID(by time.Duration) func(*hold.Reservation) {
	return func(r *hold.Reservation) { r.Request, _ = ids.NewRequest(time.Now().Add(by), zeros{}) }
}

func nearlyZero(st *State) {
	st.Keys[0].Limits[limit.ZeroPriced-1] = 3
	st.Account.ZeroPriced = 20 * time.Second
}

func TestARepeatedIDIsInDoubtUntilItIsTooOld(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.maxOpen = 1_000_000
		b.open(t)
		r := b.request(1)
		if _, _, ok := b.Admit(t.Context(), r); !ok {
			t.Fatal("got doubt, want an admission")
		}
		for range 3 * remembered / Every {
			if _, _, ok := b.Admit(t.Context(), r); ok {
				t.Fatal("the repeated id: got an admission, want doubt")
			}
			pass(t, Every)
			b.admit(t, 1)
		}
	})
}

func TestIDsAreRememberedWithinABound(t *testing.T) {
	var r recent
	now := time.Unix(1000, 0)
	id := func(n int) ids.RequestID {
		return ids.RequestID{0: 1, 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
	}
	for n := range maxRecent {
		if r.has(id(n), now) {
			t.Fatalf("id %d: got it remembered, want it new", n)
		}
		r.add(id(n))
	}
	if !r.has(id(maxRecent), now) {
		t.Error("one id too many: got it new, want doubt")
	}
	now = now.Add(remembered)
	same(t, "in the next generation: an old id is remembered", r.has(id(7), now), true)
	same(t, "in the next generation: a new id is remembered", r.has(id(maxRecent), now), false)
	if now = now.Add(2 * remembered); r.has(id(7), now) {
		t.Error("after two generations: got an id remembered, want it forgotten")
	}
}

func TestWhatIsShortWaitsForOneTurn(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		began, taken := time.Now(), b.spy.taken()
		b.admit(t, 10_000) // a handful of the small requests before is less
		same(t, "turns for too little credit", b.spy.taken()-taken, 1)
		if took := time.Since(began); took >= Every {
			t.Errorf("too little credit: got a wait of %v, want a turn at once", took)
		}
		for range 3 * 2 * handful {
			b.admit(t, 1)
		}
		if time.Since(began) >= Every {
			t.Errorf("too few places: got a wait of %v, want turns at once", time.Since(began))
		}
	})
}

func TestNobodyWaitsForATurnForLong(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		b.spy.set(func() {
			b.spy.fail = func([]Turn) error {
				_ = clock.Sleep(context.Background(), time.Second)
				return nil
			}
		})
		began := time.Now()
		_, _, ok := b.Admit(t.Context(), b.request(1_000_000))
		same(t, "admitted", ok, false)
		same(t, "the wait", time.Since(began), patience)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began = time.Now()
		_, _, ok = b.Admit(ctx, b.request(1_000_000))
		same(t, "admitted when the caller leaves", ok, false)
		same(t, "the wait of a caller that leaves", time.Since(began), time.Millisecond)
	})
}

func TestARequestWaitsForTheSliceThatIsOpening(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.world.latency = 100 * time.Millisecond
		b.saw(busy)
		_ = clock.Sleep(t.Context(), Every+time.Microsecond)
		if b.isOpen() {
			t.Fatal("the slice is open, want it opening")
		}
		b.admit(t, 1)
	})
}

func TestASliceIsBoundedInPlacesWhileNothingCanBeWritten(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.maxOpen = 1_000_000
		b.open(t)
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		n := 0
		for ; ; n++ {
			if _, _, ok := b.Admit(t.Context(), b.request(0)); !ok {
				break
			}
		}
		if n == 0 || n > MaxPlaces {
			t.Errorf("got %d admissions, want at most %d", n, MaxPlaces)
		}
		same(t, "unwritten requests", b.Waiting(), n)
	})
}

func TestAnOwnerHasABoundedNumberOfSlices(t *testing.T) {
	cfg := DefaultConfig(Owner{ID: [16]byte{1}})
	cfg.MaxSlices, cfg.Batch = 5, 2
	setupWith(t, cfg, func(t *testing.T, b *bundle) {
		for n := range byte(8) {
			b.account = b.world.addWallet(10+n, money.USD, 100, 6000, 1)
			b.key = ids.KeyID{14: 10 + n, 15: 1}
			b.saw(busy)
		}
		pass(t, Every)
		if got := len(b.world.slices); got != 5 {
			t.Errorf("got %d slices, want 5", got)
		}
		for _, turns := range b.spy.turns {
			if len(turns) > 2 {
				t.Errorf("got a transaction of %d slices, want at most 2", len(turns))
			}
		}
	})
}

func TestTheReckonedTimeNeverGoesBack(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		first := b.admit(t, 1)
		b.spy.set(func() { b.spy.told = func(st *State) { st.Account.Now = st.Account.Now.Add(-500 * time.Millisecond) } })
		pass(t, Every)
		if again := b.admit(t, 1); again.AdmittedAt.Before(first.AdmittedAt) {
			t.Errorf("got an admission at %v after one at %v", again.AdmittedAt, first.AdmittedAt)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	w := newBundle(DefaultConfig(Owner{ID: [16]byte{1}}))
	a := newAccount(w.account.id, wanted, time.Now())
	if _, ok := a.take(time.Now()); !ok {
		b.Fatal("no turn")
	}
	w.account.keys[w.key].limits = [limit.Classes]int32{-1, -1, -1, -1, -1, -1}
	account, keys := w.world.stateLocked(w.account, time.Now())
	account.MaxOpen = 1 << 40
	st := State{Epoch: 1, Plain: true, Amount: 1 << 60, Places: MaxPlaces, Account: account, Keys: keys}
	w.index(a, a.answer(st, time.Now(), time.Now()).keys)
	r := w.request(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Request, _ = ids.NewRequest(time.Now(), zeros{})
		r.Request[12], r.Request[13], r.Request[14], r.Request[15] = byte(i>>24), byte(i>>16), byte(i>>8), byte(i)
		if _, _, ok := w.Admit(b.Context(), r); !ok {
			b.Fatal("got doubt, want an admission")
		}
		if i%200 == 199 { // a turn writes them
			now := time.Now()
			a.take(now)
			st.Account.Now = now
			a.answer(st, now, now)
			a.recent = recent{current: a.recent.current}
			clear(a.recent.current)
		}
	}
}
