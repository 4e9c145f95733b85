package slice

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// spy is a Keeper that notes turns, and fails those that fail says.
type spy struct {
	*world
	mu    sync.Mutex
	turns [][]Turn
	fail  func(turns []Turn) error
	// told changes what the owner is told.
	told func(st *State)
}

func (s *spy) Turn(ctx context.Context, owner Owner, turns []Turn) ([]State, error) {
	s.mu.Lock()
	s.turns = append(s.turns, slices.Clone(turns))
	fail, told := s.fail, s.told
	s.mu.Unlock()
	if fail != nil {
		if err := fail(turns); err != nil {
			return nil, err
		}
	}
	states, err := s.world.Turn(ctx, owner, turns)
	for i := range states {
		if told != nil && states[i].Epoch != 0 {
			told(&states[i])
		}
	}
	return states, err
}

// set changes the spy.
func (s *spy) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// taken returns the number of transactions.
func (s *spy) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns)
}

// bundle is an owner with a world of one account with one key.
type bundle struct {
	*Slices
	world   *world
	spy     *spy
	account *wallet
	key     ids.KeyID
	written []hold.Pin
	stop    func()
	n       uint16
}

// setup runs test in a bubble with an owner whose turns take no time.
func setup(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	setupWith(t, DefaultConfig(Owner{ID: [16]byte{1}}), test)
}

func setupWith(t *testing.T, cfg Config, test func(t *testing.T, b *bundle)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.Run(ctx) })
		b.stop = func() {
			cancel()
			running.Wait()
		}
		synctest.Wait()
		test(t, b)
		b.stop()
		if b.world.broken != nil {
			t.Error(b.world.broken)
		}
	})
}

func newBundle(cfg Config) *bundle {
	w := newWorld(rand.New(rand.NewPCG(1, 1)))
	w.latency = 0
	b := &bundle{world: w, spy: &spy{world: w}, account: w.addWallet(1, money.USD, 100, 6000, 1)}
	b.key = ids.KeyID{14: 1, 15: 1}
	b.Slices = New(cfg, Deps{Keeper: b.spy, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
		Writer: func(_ context.Context, pins []hold.Pin) error {
			b.written = append(b.written, pins...)
			return nil
		}})
	return b
}

// request returns a reservation with a fresh id.
func (b *bundle) request(amount money.NanoUSD) hold.Reservation {
	b.n++
	id, _ := ids.NewRequest(time.Now(), zeros{})
	id[14], id[15] = byte(b.n>>8), byte(b.n)
	return hold.Reservation{AdmitRequest: hold.AdmitRequest{Request: id, Key: b.key, Model: "m"}, Class: limit.LLM,
		Billing: hold.PayAsYouGo, Amount: amount}
}

// zeros is no randomness.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// saw has the owner see n requests that the exact path admitted.
func (b *bundle) saw(n int) {
	for range n {
		b.Saw(b.request(10), hold.Decision{Outcome: hold.Admitted, Admission: hold.Admission{Account: b.account.id,
			Billing: hold.PayAsYouGo}})
	}
}

// pass lets time pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := clock.Sleep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// open opens the account's slice.
func (b *bundle) open(t *testing.T) {
	t.Helper()
	b.saw(busy)
	pass(t, Every)
	if !b.isOpen() {
		t.Fatal("the account has no slice")
	}
}

func (b *bundle) isOpen() bool {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	return len(b.world.slices) > 0
}

// admit admits a request, or fails the test.
func (b *bundle) admit(t *testing.T, amount money.NanoUSD) hold.Pin {
	t.Helper()
	_, pin, ok := b.Admit(t.Context(), b.request(amount))
	if !ok {
		t.Fatal("got doubt, want an admission")
	}
	return pin
}

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
		asked := b.spy.taken()
		for range 58 {
			b.saw(busy)
			pass(t, busyWithin)
		}
		if got := b.spy.taken(); asked != 1 || got != asked {
			t.Errorf("got %d and then %d turns, want 1 and no more within a minute", asked, got)
		}
		pass(t, 2*time.Second)
		b.saw(busy)
		pass(t, Every)
		if got := b.spy.taken(); got != 2 {
			t.Errorf("got %d turns after a minute, want 2", got)
		}
	})
}

func TestASliceThatIsRecalledThroughTheDatabaseIsClosedAndPaused(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		b.spy.set(func() { b.spy.told = func(st *State) { st.Recalled = true } })
		b.admit(t, 70)
		pass(t, Every)
		if b.isOpen() {
			t.Error("after the turn that told of the recall: got the slice open, want it closed")
		}
		if got := b.Waiting(); got != 0 {
			t.Errorf("got %d unwritten requests, want none", got)
		}
		b.spy.set(func() { b.spy.told = nil })
		b.saw(busy)
		pass(t, Every)
		if b.isOpen() {
			t.Error("within the pause: got a slice, want none")
		}
		pass(t, minPause)
		b.open(t)
	})
}

func TestAnAdmissionIsWrittenByTheNextTurn(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 70)
		if got := b.Waiting(); got != 1 {
			t.Errorf("got %d unwritten requests, want 1", got)
		}
		pass(t, Every)
		h := b.world.holds[pin.Request]
		if h == nil || h.amount != 70 || !h.open {
			t.Errorf("got the hold %+v, want an open one of 70", h)
		}
		if got := b.Waiting(); got != 0 {
			t.Errorf("got %d unwritten requests, want none", got)
		}
		if full := b.account.keys[b.key].full[limit.LLM-1]; !full.After(time.Now().Add(-Every)) {
			t.Errorf("the key's rate is full at %v, want it moved on", full)
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
	if !r.has(id(7), now) || r.has(id(maxRecent), now) {
		t.Error("in the next generation: want the old ids remembered and a new one not")
	}
	if now = now.Add(2 * remembered); r.has(id(7), now) {
		t.Error("after two generations: got an id remembered, want it forgotten")
	}
}

func TestWhatIsShortWaitsForOneTurn(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		began, taken := time.Now(), b.spy.taken()
		b.admit(t, 10_000) // a handful of the small requests before is less
		if got := b.spy.taken(); got != taken+1 || time.Since(began) >= Every {
			t.Errorf("too little credit: got %d turns in %v, want 1 at once", got-taken, time.Since(began))
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
		if _, _, ok := b.Admit(t.Context(), b.request(1_000_000)); ok || time.Since(began) != patience {
			t.Errorf("got %t after %v, want doubt after %v", ok, time.Since(began), patience)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began = time.Now()
		if _, _, ok := b.Admit(ctx, b.request(1_000_000)); ok || time.Since(began) != time.Millisecond {
			t.Errorf("got %t after %v, want doubt when the caller leaves", ok, time.Since(began))
		}
	})
}

func TestATurnUnderWayDoesNotKeepRequestsWaiting(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		b.world.latency = 50 * time.Millisecond
		began := time.Now()
		pins := []hold.Pin{b.admit(t, 1)}
		_ = clock.Sleep(t.Context(), Every+time.Millisecond) // now a turn is under way
		now := time.Now()
		pins = append(pins, b.admit(t, 1))
		if !time.Now().Equal(now) {
			t.Errorf("got a wait of %v, want none", time.Since(now))
		}
		pass(t, 4*Every)
		for i, p := range pins {
			if b.world.holds[p.Request] == nil {
				t.Errorf("request %d after %v: got no hold, want one", i, time.Since(began))
			}
		}
	})
}

func TestASliceThatNobodyUsesIsClosed(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		for range 5 {
			pass(t, heartbeat)
			b.admit(t, 1)
		}
		pass(t, idleAfter)
		if !b.isOpen() {
			t.Error("got the slice closed, want it open")
		}
		pass(t, 3*Every)
		if b.isOpen() || b.account.held != 5 {
			t.Errorf("got a slice %t and %d held, want no slice and the holds alone", b.isOpen(), b.account.held)
		}
		b.open(t) // at once, because nobody recalled the one before
	})
}

func TestAnIdleSliceLivesByItsHeartbeat(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		taken := b.spy.taken()
		pass(t, idleAfter-Every)
		if got := b.spy.taken() - taken; got != 1 {
			t.Errorf("got %d turns in %v, want one heartbeat", got, idleAfter-Every)
		}
	})
}

func TestRecallsShareTheEndOfASlice(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 5)
		b.world.latency = 10 * time.Millisecond
		taken := b.spy.taken()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := b.Recall(t.Context(), b.account.id); err != nil {
					t.Error(err)
				}
				if b.isOpen() || b.world.holds[pin.Request] == nil {
					t.Error("a recall returned before all was written and the slice closed")
				}
			})
		}
		all.Wait()
		if got := b.spy.taken() - taken; got != 1 {
			t.Errorf("got %d turns, want 1", got)
		}
		if _, _, ok := b.Admit(t.Context(), b.request(1)); ok {
			t.Error("after a recall: got an admission, want doubt")
		}
	})
}

func TestASliceThatTheOwnerDoesNotKnowOfIsRecalledToo(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		if _, err := b.world.Turn(t.Context(), b.cfg.Owner, []Turn{{Account: b.account.id, Want: 10}}); err != nil {
			t.Fatal(err)
		}
		if err := b.Recall(t.Context(), b.account.id); err != nil || b.isOpen() {
			t.Errorf("got the error %v and a slice %t, want neither", err, b.isOpen())
		}
	})
}

func TestLeavingASliceKeepsTheAccountFromOneForASecond(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		if err := b.Leave(t.Context(), b.key); err != nil || b.spy.taken() > 0 {
			t.Errorf("without a slice: got the error %v and %d turns, want neither", err, b.spy.taken())
		}
		b.open(t)
		for range worthwhile {
			b.admit(t, 1)
		}
		if err := b.Leave(t.Context(), b.key); err != nil || b.isOpen() {
			t.Fatalf("got the error %v and a slice %t, want neither", err, b.isOpen())
		}
		b.saw(busy)
		pass(t, minPause-time.Millisecond)
		if b.isOpen() {
			t.Error("within a second: got a slice, want none")
		}
		pass(t, busyWithin)
		b.open(t)
	})
}

func TestThePausesBetweenSlicesThatDoNotPayDouble(t *testing.T) {
	now, id := time.Unix(1000, 0), ids.AccountID{1}
	s := newSeen()
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		s.pause(id, worthwhile-1, now)
		if got := s.ofLocked(id).none.Sub(now); got != want*time.Second {
			t.Errorf("got a pause of %v, want %v", got, want*time.Second)
		}
		now = now.Add(want * time.Second)
	}
	s.pause(id, worthwhile, now)
	if got := s.ofLocked(id).none.Sub(now); got != minPause {
		t.Errorf("after a slice that pays: got a pause of %v, want %v", got, minPause)
	}
}

func TestNobodyWaitsForASliceThatIsDead(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 1)
		pass(t, Every)
		wrote := time.Now()
		b.admit(t, 1)
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		pass(t, Every)
		for range 2 {
			if err := b.Leave(t.Context(), b.key); err != nil {
				t.Error(err)
			}
			if since := time.Since(wrote); since != Lease {
				t.Errorf("got an end %v after the last write, want one after %v", since, Lease)
			}
		}
		r := b.request(1)
		d, err := b.world.Admit(t.Context(), []hold.Reservation{r})
		if err != nil || d[0].Outcome != hold.RateLimited {
			t.Errorf("got the decision %+v and the error %v, want one of the exact path, which strands the slice", d, err)
		}
		b.spy.set(func() { b.spy.fail = nil })
		pass(t, maxBackoff+Every)
		if b.Open() != 0 || b.Waiting() != 0 || b.world.holds[pin.Request] == nil {
			t.Errorf("got %d slices and %d unwritten, want all written", b.Open(), b.Waiting())
		}
	})
}

func TestAWishIsNoSliceToLeave(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.saw(busy)
		if err := b.Leave(t.Context(), b.key); err != nil {
			t.Error(err)
		}
		pass(t, Every)
		if !b.isOpen() {
			t.Error("got no slice, want the one that was asked for")
		}
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

func TestPinsAreWrittenByTheNextTurn(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		mine := []hold.Pin{b.admit(t, 1), b.admit(t, 2)}
		other := hold.Pin{Request: ids.RequestID{1}, Account: b.account.id, Epoch: 99}
		foreign := hold.Pin{Request: ids.RequestID{2}, Account: ids.AccountID{9}}
		began, taken := time.Now(), b.spy.taken()
		if err := b.Write(t.Context(), append(mine, other, foreign)); err != nil {
			t.Fatal(err)
		}
		if got := b.spy.taken() - taken; got != 1 || time.Since(began) > Every {
			t.Errorf("got %d turns in %v, want 1 within %v", got, time.Since(began), Every)
		}
		for _, p := range mine {
			if b.world.holds[p.Request] == nil {
				t.Errorf("the pin %v: got no hold, want one", p.Request)
			}
		}
		if len(b.written) != 2 || b.written[0] != other || b.written[1] != foreign {
			t.Errorf("got %+v from the writer, want the pins of others", b.written)
		}
		if err := b.Write(t.Context(), mine); err != nil || b.spy.taken()-taken != 1 || len(b.written) != 2 {
			t.Errorf("again: got the error %v and %d turns, want nothing to do", err, b.spy.taken()-taken)
		}
	})
}

func TestAPinThatAClientWaitsForHasATurnAtOnce(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 1)
		began := time.Now()
		if err := b.WriteNow(t.Context(), []hold.Pin{pin}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a turn: got one after %v, want one at once", took)
		}
		if b.world.holds[pin.Request] == nil {
			t.Error("got no hold, want one")
		}
	})
}

func TestManyPinsThatAreAwaitedHaveATurnAtOnce(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.maxOpen = 10_000
		b.open(t)
		for range 2 * enough / 8 { // until the slice has places for so many
			for range 8 {
				b.admit(t, 1)
			}
			pass(t, Every)
		}
		var pins []hold.Pin
		for range enough {
			pins = append(pins, b.admit(t, 1))
		}
		began := time.Now()
		if err := b.Write(t.Context(), pins); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a turn for %d pins: got one after %v, want one at once", enough, took)
		}
	})
}

func TestAPinThatCannotBeWrittenIsAnErrorAndStays(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 1)
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		if err := b.Write(t.Context(), []hold.Pin{pin}); !errors.Is(err, errLost) {
			t.Errorf("got the error %v, want %v", err, errLost)
		}
		b.spy.set(func() { b.spy.fail = nil })
		pass(t, 2*Every)
		if b.world.holds[pin.Request] == nil {
			t.Error("when turns succeed again: got no hold, want one")
		}
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
		if n == 0 || n > MaxPlaces || b.Waiting() != n {
			t.Errorf("got %d admissions and %d unwritten requests, want at most %d", n, b.Waiting(), MaxPlaces)
		}
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

func TestOneSliceThatCannotBeWrittenDoesNotKeepTheOthersFromIt(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		bad, key := b.account.id, b.key
		var others []hold.Pin
		for n := range byte(12) {
			b.account = b.world.addWallet(10+n, money.USD, 100, 6000, 1)
			b.key = ids.KeyID{14: 10 + n, 15: 1}
			b.open(t)
			others = append(others, b.admit(t, 1))
		}
		b.key = key
		b.admit(t, 1)
		b.spy.set(func() {
			b.spy.fail = func(turns []Turn) error {
				for _, turn := range turns {
					if turn.Account == bad && len(turn.Pins) > 0 {
						return errLost
					}
				}
				return nil
			}
		})
		pass(t, Trust+2*Every)
		for i, p := range others {
			if b.world.holds[p.Request] == nil {
				t.Errorf("account %d: got no hold, want one", i)
			}
		}
	})
}

func TestAnOwnerThatStopsClosesItsSlices(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 3)
		b.stop()
		if b.isOpen() || b.world.holds[pin.Request] == nil || b.Open() != 0 || b.Waiting() != 0 {
			t.Errorf("got a slice %t, the hold %+v, %d slices and %d unwritten, want all written and closed", b.isOpen(),
				b.world.holds[pin.Request], b.Open(), b.Waiting())
		}
		b.saw(busy)
		if b.Open() != 0 {
			t.Error("after the end: got a wish for a slice, want none")
		}
	})
}

func TestAnOwnerThatCannotCloseItsSlicesStopsInTime(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 3)
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		var wrote, recalled error
		var all sync.WaitGroup
		began := time.Now()
		all.Go(b.stop)
		all.Go(func() { recalled = b.Recall(t.Context(), b.account.id) })
		all.Wait()
		if took := time.Since(began); took > b.cfg.StopTimeout+maxBackoff {
			t.Errorf("got an end after %v, want one within %v", took, b.cfg.StopTimeout)
		}
		if recalled != nil {
			t.Errorf("a recall: got the error %v, want none when the slice is dead", recalled)
		}
		if err := b.Recall(t.Context(), b.account.id); !errors.Is(err, errStopped) {
			t.Errorf("a recall afterwards: got the error %v, want %v", err, errStopped)
		}
		if wrote = b.Write(t.Context(), []hold.Pin{pin}); wrote != nil || len(b.written) != 1 {
			t.Errorf("afterwards: got the error %v and %d pins from the writer, want the pin", wrote, len(b.written))
		}
		if b.Waiting() != 0 {
			t.Errorf("got %d unwritten requests, want none that this owner knows of", b.Waiting())
		}
	})
}

func TestASliceThatWasStrandedIsDroppedAndItsPinsAreWritten(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 3)
		b.world.mu.Lock()
		for _, s := range b.world.slices {
			s.aliveUntil = time.Time{}
		}
		b.world.openSliceLocked(b.account, time.Now())
		b.world.mu.Unlock()
		pass(t, Every)
		if b.world.holds[pin.Request] == nil || b.Open() != 0 {
			t.Errorf("got the hold %+v and %d slices, want the hold and none", b.world.holds[pin.Request], b.Open())
		}
	})
}

// granted is the state of a turn that left a slice with the account's key.
func (b *bundle) granted(epoch int64) State {
	account, keys := b.world.stateLocked(b.account, time.Now())
	return State{Epoch: epoch, Plain: true, Amount: 1000, Places: 20, Account: account, Keys: keys}
}

// flying returns an account whose slice has an admitted request in the turn under way and another since.
func (b *bundle) flying(t *testing.T) *account {
	t.Helper()
	a := newAccount(b.account.id, wanted, time.Now())
	a.take(time.Now())
	a.answer(b.granted(3), time.Now(), time.Now())
	for n := range 2 {
		r := b.request(100)
		r.ZeroPriced = true
		if _, _, found, _ := a.admit(&r, time.Now()); found != admitted {
			t.Fatalf("got the verdict %d, want an admission", found)
		}
		if n == 0 {
			a.take(time.Now())
		}
	}
	return a
}

func TestAnAnswerLeavesWhatWasAdmittedMeanwhile(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		a := b.flying(t)
		st := b.granted(3)
		st.Account.Open = 7
		if got := a.answer(st, time.Now(), time.Now()); got.written != 1 || len(a.pins) != 1 {
			t.Errorf("got %d pins written and %d left, want 1 and 1", got.written, len(a.pins))
		}
		if a.decider.Free != 900 || a.decider.Open != 8 || a.places != 19 {
			t.Errorf("got %d of credit, %d open and %d places, want 900, 8 and 19", a.decider.Free, a.decider.Open, a.places)
		}
		turn, _ := a.take(time.Now())
		every := limit.Meter{PerMinute: 6000}.Take().Ahead
		if got := turn.Ahead[b.key][limit.LLM-1]; got != 2*every || turn.ZeroPriced != 2*every {
			t.Errorf("got rates %v and %v ahead, want both requests' %v", got, turn.ZeroPriced, 2*every)
		}
	})
}

func TestAFailedTurnIsRepeatedWhole(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		a := b.flying(t)
		a.fail(errLost)
		turn, _ := a.take(time.Now())
		if len(turn.Pins) != 2 || len(turn.Ahead) != 1 {
			t.Errorf("got %d pins and the rates of %d keys, want 2 and 1", len(turn.Pins), len(turn.Ahead))
		}
	})
}

func TestASliceThatEndedDuringATurnWritesWhatWasAdmittedMeanwhile(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		a := b.flying(t)
		if got := a.answer(State{Plain: true}, time.Now(), time.Now()); got.over || !got.unfinished {
			t.Errorf("got over %t and unfinished %t, want it unfinished", got.over, got.unfinished)
		}
		if turn, _ := a.take(time.Now()); len(turn.Pins) != 1 || turn.Epoch != 3 || !turn.Close {
			t.Errorf("got %d pins of slice %d, want the other one of slice 3", len(turn.Pins), turn.Epoch)
		}
		if got := a.answer(State{Plain: true}, time.Now(), time.Now()); !got.over {
			t.Error("with all written: got it unfinished, want it over")
		}
	})
}

func TestAnOpeningThatMayComeLateMeetsNoOtherSlice(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		b.saw(busy)
		pass(t, Every+time.Millisecond)
		b.spy.set(func() { b.spy.fail = nil })
		pass(t, 5*Every)
		if got := b.Open(); got != 0 {
			t.Fatalf("got %d slices, want the one whose opening failed ended", got)
		}
		for range 4 {
			b.saw(busy)
			pass(t, busyWithin)
		}
		if b.isOpen() {
			t.Errorf("within %v: got a slice, want none", lateFor)
		}
		pass(t, busyWithin)
		b.open(t)
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

func TestWhatASliceShouldHaveFollowsItsUse(t *testing.T) {
	now := time.Unix(1000, 0)
	d := demand{at: now}
	for range 1000 { // a hundred a second
		now = now.Add(10 * time.Millisecond)
		d.fade(now)
		d.add(7)
	}
	credit, places := d.want()
	if want := money.NanoUSD(5 * 100 * 7); credit < want*8/10 || credit > want*11/10 {
		t.Errorf("got a wish for %d, want about %d", credit, want)
	}
	if places != MaxPlaces {
		t.Errorf("got a wish for %d places, want %d", places, MaxPlaces)
	}
	d.add(money.NanoUSD(1) << 62)
	if credit, _ = d.want(); credit != handful*maxDemand {
		t.Errorf("after a huge request: got a wish for %d, want %d", credit, handful*maxDemand)
	}
	d.fade(now.Add(span))
	if credit, places = d.want(); credit != 0 || places != 2*handful {
		t.Errorf("after %v without use: got a wish for %d and %d places, want 0 and %d", span, credit, places, 2*handful)
	}
}

// Every pair of a phase and an event is in the table or cannot come.
func TestTheLifeOfASlice(t *testing.T) {
	const never = phase("")
	events := []event{asked, granted, ended, endedUnwritten, failed, recalled}
	for p, want := range map[phase][]phase{
		wanted:  {opening, never, never, never, never, gone},
		opening: {never, open, gone, never, closing, closing},
		open:    {never, open, gone, closing, open, closing},
		closing: {never, closing, gone, closing, closing, closing},
		gone:    {never, never, never, never, never, gone},
	} {
		for i, e := range events {
			if got, ok := p.after(e); got != want[i] || ok != (want[i] != never) {
				t.Errorf("%s after %s: got %q and %t, want %q", p, e, got, ok, want[i])
			}
		}
	}
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
