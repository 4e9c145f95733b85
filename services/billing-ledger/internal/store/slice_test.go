package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/slice"
	"svc.internal/services/billing-ledger/internal/usage"
)

// sliceOwner owns slices of a test.
type sliceOwner struct {
	*env
	owner slice.Owner
}

func (e *env) sliceOwner(t testing.TB) *sliceOwner {
	t.Helper()
	o := &sliceOwner{env: e, owner: slice.Owner{Address: "10.0.0.1:7001"}}
	if _, err := rand.Read(o.owner.ID[:]); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *sliceOwner) turn(t testing.TB, turns ...slice.Turn) []slice.State {
	t.Helper()
	states, err := o.store.Turn(t.Context(), o.owner, turns)
	if err != nil {
		t.Fatal(err)
	}
	if len(states) != len(turns) {
		t.Fatalf("states: got %d, want %d", len(states), len(turns))
	}
	return states
}

// opens wants an open slice of c, with so many cents if the account has them to spare.
func (o *sliceOwner) opens(t testing.TB, c consumer, cents int64) slice.State {
	t.Helper()
	s := o.turn(t, slice.Turn{Account: c.account, Want: money.NanoUSD(cents) * cent, Places: 10})[0]
	if s.Epoch == 0 {
		t.Fatalf("a slice of a plain account: got %+v, want it open", s)
	}
	return s
}

// pins are requests of c, each for so many cents, as the owner of s admits them.
func (o *sliceOwner) pins(t testing.TB, c consumer, s slice.State, cents ...int64) []hold.Pin {
	t.Helper()
	var pins []hold.Pin
	for _, n := range cents {
		r := o.reservation(t, c, n)
		pins = append(pins, r.Pin(hold.Admission{Account: c.account, Billing: r.Billing, Held: r.Amount, Price: r.Price,
			Rates: r.Rates}, s.Account.Now, s.Epoch))
	}
	return pins
}

// dies makes the owners of all slices dead.
func (o *sliceOwner) dies(t testing.TB) {
	o.exec(t, `UPDATE slice SET alive_until = now() - interval '1 second'`)
}

// sliced is what the account's slices have.
func (e *env) sliced(t testing.TB, c consumer) money.NanoUSD {
	t.Helper()
	return money.NanoUSD(scan[int64](t, e, `SELECT coalesce(sum(amount), 0)::bigint FROM slice WHERE account_id = $1`,
		[16]byte(c.account)))
}

func (e *env) held(t testing.TB, c consumer) money.NanoUSD {
	t.Helper()
	return money.NanoUSD(scan[int64](t, e, `SELECT held FROM wallet WHERE account_id = $1`, [16]byte(c.account)))
}

func (e *env) wantHeld(t testing.TB, c consumer, inSlices, inAll int64) {
	t.Helper()
	if got, want := e.sliced(t, c), money.NanoUSD(inSlices)*cent; got != want {
		t.Errorf("credit in slices: got %v, want %v", got, want)
	}
	if got, want := e.held(t, c), money.NanoUSD(inAll)*cent; got != want {
		t.Errorf("held: got %v, want %v", got, want)
	}
}

func (e *env) inflight(t testing.TB, c consumer) int {
	t.Helper()
	return scan[int](t, e, `SELECT n FROM key_inflight WHERE key_id = $1`, [16]byte(c.key))
}

func TestASliceHasATwentiethOfWhatIsAvailableAndNothingNearTheEnd(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o := e.sliceOwner(t)
	rich, poor := e.consumer(t, 10*money.USD), e.consumer(t, money.USD-1)
	if s := o.opens(t, rich, 1000); s.Amount != 50*cent {
		t.Errorf("of $10: got %v, want 50 cents", s.Amount)
	}
	if s := o.opens(t, poor, 1000); s.Amount != 0 {
		t.Errorf("of less than a dollar: got %v, want nothing", s.Amount)
	}
	e.wantHeld(t, rich, 50, 50)
	e.sound(t)
}

func TestATurnWritesHoldsFromItsSliceAndFillsItAgain(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	e.wantHeld(t, c, 20, 20)
	pins := o.pins(t, c, s, 3, 4)
	s = o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Pins: pins, Want: 20 * cent, Places: 10})[0]
	if s.Amount != 20*cent {
		t.Errorf("amount: got %v, want 20 cents again", s.Amount)
	}
	if s.Account.Open != 2 {
		t.Errorf("under way: got %d, want 2", s.Account.Open)
	}
	e.wantHeld(t, c, 20, 27)
	s = o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Close: true})[0]
	if s.Epoch != 0 {
		t.Errorf("epoch after the end: got %d, want 0", s.Epoch)
	}
	e.wantHeld(t, c, 0, 7)
	e.sound(t)
	r := e.reservation(t, c, 3)
	r.Request = pins[0].Request
	e.settle(t, usage.Settled, e.served(t, r, 2))
	e.wantHeld(t, c, 0, 4)
	e.sound(t)
}

func TestAPinIsWrittenOnceHoweverOftenAndByWhom(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	pins := o.pins(t, c, s, 3, 4)
	for range 2 {
		if err := e.store.WritePins(t.Context(), append(pins[:1:1], pins[0])); err != nil {
			t.Fatal(err)
		}
		e.wantHeld(t, c, 17, 20)
	}
	// The owner does not know that its turn was committed.
	for range 2 {
		s = o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Pins: pins, Want: 0})[0]
		e.wantHeld(t, c, 13, 20)
	}
	if n := e.inflight(t, c); n != 2 {
		t.Errorf("in flight: got %d, want 2", n)
	}
	e.sound(t)
	// Neither does a hold that has ended begin again.
	e.release(t, pins[0].Request)
	if err := e.store.WritePins(t.Context(), pins); err != nil {
		t.Fatal(err)
	}
	if n := e.inflight(t, c); n != 1 {
		t.Errorf("in flight after a release: got %d, want 1", n)
	}
	e.wantHeld(t, c, 13, 17)
	e.sound(t)
}

func TestAnOpeningWhoseEndNobodySawIsTheSameSlice(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	first, second := o.opens(t, c, 20), o.opens(t, c, 20)
	if first.Epoch != second.Epoch {
		t.Errorf("epoch: got %d, want %d", second.Epoch, first.Epoch)
	}
	e.wantHeld(t, c, 20, 20)
}

func TestAPinOfASliceThatIsGoneHoldsNothingAndIsChargedWhatIsAvailable(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 5)
	pins := o.pins(t, c, s, 3, 3) // the second is more than the slice has left
	o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Pins: pins, Close: true})
	late := o.pins(t, c, s, 4)
	if s := o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Pins: late, Want: 5 * cent})[0]; s.Epoch != 0 {
		t.Errorf("epoch of a slice that is gone: got %d, want 0", s.Epoch)
	}
	e.wantHeld(t, c, 0, 3)
	e.sound(t)
	r := e.reservation(t, c, 4)
	r.Request = late[0].Request
	e.settle(t, usage.Settled, e.served(t, r, 4))
	if posted, _ := e.wallet(t, c); posted != 100*money.USD-4*cent {
		t.Errorf("posted: got %v, want all less 4 cents", posted)
	}
	e.sound(t)
}

func TestPinsOfClearedDaysAndOfUnknownKeysAreLeftOut(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c, other := e.sliceOwner(t), e.consumer(t, 100*money.USD), e.consumer(t, 0)
	s := o.opens(t, c, 20)
	pins := o.pins(t, c, s, 1, 1, 1)
	pins[0].Request = requestAt(t, time.Now().Add(-72*time.Hour))
	e.exec(t, `INSERT INTO cleared_day VALUES ((now() AT TIME ZONE 'UTC')::date - 2)`)
	pins[1].Key = other.key
	if err := e.store.WritePins(t.Context(), pins); err != nil {
		t.Fatal(err)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM hold`); n != 1 {
		t.Errorf("holds: got %d, want 1", n)
	}
	e.wantHeld(t, c, 19, 20)
}

func TestMorePinsThanATransactionTakesAreAllWritten(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 10000*money.USD)
	s := o.opens(t, c, 2000)
	if err := e.store.WritePins(t.Context(), o.pins(t, c, s, make([]int64, 1001)...)); err != nil {
		t.Fatal(err)
	}
	if n := e.inflight(t, c); n != 1001 {
		t.Errorf("in flight: got %d, want 1001", n)
	}
}

func TestASliceOfADeadOwnerIsStrandedAndReclaimed(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.LLMPerMinute, limits.ZeroPricedPerMinute, limits.Concurrent = 100, 100, 24
	e := setup(t, limits)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	if s.Places != 10 {
		t.Fatalf("places: got %d, want 10", s.Places)
	}
	o.dies(t)
	// The next owner finds it, and gets none beside it, by the turn that strands it and by later ones.
	next := e.sliceOwner(t)
	for range 2 {
		s := next.turn(t, slice.Turn{Account: c.account, Want: 20 * cent, Places: 10})[0]
		same(t, "beside a stranded slice: epoch", s.Epoch, 0)
		same(t, "beside a stranded slice: plain", s.Plain, true)
		same(t, "beside a stranded slice: requests under way, which are its", s.Account.Open, 10)
		if ahead := s.Keys[0].Ahead[limit.LLM-1]; ahead < 50*time.Second {
			t.Errorf("rate of the key: got %v ahead, want a minute since the owner's death", ahead)
		}
		if ahead := s.Account.ZeroPriced; ahead < 50*time.Second {
			t.Errorf("rate of models without a price: got %v ahead, want a minute since the owner's death", ahead)
		}
	}
	e.wantHeld(t, c, 20, 20)
	e.wantWallet(t, c, 100*money.USD, 20*cent) // people see it as held
	// What the dead owner admitted is written from its slice.
	pins := o.pins(t, c, s, 3)
	if s := o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Pins: pins, Want: 20 * cent})[0]; s.Epoch != 0 {
		t.Errorf("epoch for the dead owner: got %d, want 0", s.Epoch)
	}
	e.wantHeld(t, c, 17, 20)
	if n := scan[int](t, e, `SELECT places FROM slice WHERE state = 'stranded'`); n != 9 {
		t.Errorf("places of the stranded slice: got %d, want one less", n)
	}
	e.reclaims(t, ever, 0)
	e.exec(t, `UPDATE slice SET reclaim_at = now() - interval '1 minute' WHERE state = 'stranded'`)
	e.reclaims(t, time.Now().Add(-time.Hour), 0)
	e.reclaims(t, ever, 1)
	e.wantHeld(t, c, 0, 3)
	next.opens(t, c, 20)
	e.wantHeld(t, c, 20, 23)
	e.sound(t)
}

func (e *env) reclaims(t testing.TB, asOf time.Time, want int) {
	t.Helper()
	n, err := e.store.ReclaimSlices(t.Context(), asOf, 10)
	if err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Errorf("reclaimed slices: got %d, want %d", n, want)
	}
}

// An owner admits nothing after its death, and no rate is ahead by more than a minute.
func TestASliceThatDiedLongAgoIsStrandedWithoutItsRates(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.LLMPerMinute, limits.ZeroPricedPerMinute = 100, 100
	e := setup(t, limits)
	o := e.sliceOwner(t)
	for ago, want := range map[string]time.Duration{
		"2 minutes": 0, "40 seconds": 20 * time.Second, "1 second": 59 * time.Second,
	} {
		c := e.consumer(t, 100*money.USD)
		o.opens(t, c, 20)
		e.exec(t, `UPDATE slice SET alive_until = now() - $2::interval WHERE account_id = $1`, [16]byte(c.account), ago)
		s := e.sliceOwner(t).turn(t, slice.Turn{Account: c.account})[0]
		if n := scan[int](t, e, `SELECT count(*) FROM slice WHERE account_id = $1 AND state = 'stranded'`,
			[16]byte(c.account)); n != 1 {
			t.Errorf("dead for %s: got %d stranded slices, want 1", ago, n)
		}
		for what, ahead := range map[string]time.Duration{"the key's rate": s.Keys[0].Ahead[limit.LLM-1],
			"the rate of zero-priced models": s.Account.ZeroPriced} {
			if ahead > want || ahead < want-10*time.Second {
				t.Errorf("dead for %s: got %s %v ahead, want %v less what passed", ago, what, ahead, want)
			}
		}
	}
	if n := scan[int](t, e, `SELECT count(*) FROM account_rate`); n != 2 {
		t.Errorf("accounts whose rates were written: got %d, want the 2 that died within a minute", n)
	}
}

func TestATurnThatIsCommittedLateTakesNoLife(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	e.exec(t, `UPDATE slice SET alive_until = now() + interval '1 hour'`) // by a later turn
	until := scan[time.Time](t, e, `SELECT alive_until FROM slice`)
	o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch})
	if got := scan[time.Time](t, e, `SELECT alive_until FROM slice`); !got.Equal(until) {
		t.Errorf("the owner lives until %v, want %v as before", got, until)
	}
}

// Epochs of a sequence would be given again after a restore from a backup.
func TestAnEpochIsTheMomentAtWhichASliceOpens(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	const now = `SELECT clock_timestamp()`
	before := scan[time.Time](t, e, now)
	first := o.opens(t, c, 20).Epoch
	o.turn(t, slice.Turn{Account: c.account, Epoch: first, Close: true})
	second := o.opens(t, c, 20).Epoch
	after := scan[time.Time](t, e, now)
	if first < before.UnixMicro() {
		t.Errorf("first epoch: got %d, want at least %d", first, before.UnixMicro())
	}
	if second <= first {
		t.Errorf("second epoch: got %d, want more than %d", second, first)
	}
	if second > after.UnixMicro() {
		t.Errorf("second epoch: got %d, want at most %d", second, after.UnixMicro())
	}
}

func TestALateEndOfAnUnknownSliceLeavesANewerOneAlone(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	o.opens(t, c, 20)
	tx := e.locksWallet(t, c)
	ended := make(chan error, 1)
	go func() {
		_, err := e.store.Turn(context.WithoutCancel(t.Context()), o.owner, []slice.Turn{{Account: c.account, Close: true}})
		ended <- err
	}()
	for scan[int](t, e, `SELECT count(*) FROM pg_locks WHERE NOT granted
		AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) == 0 {
		if len(ended) > 0 {
			t.Fatalf("the end of a slice: got %v, want it to wait for the wallet", <-ended)
		}
	}
	// The slice goes, and another comes.
	if _, err := tx.Exec(t.Context(),
		`UPDATE slice SET epoch = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	e.wantHeld(t, c, 20, 20)
	// An end that begins later means it.
	o.turn(t, slice.Turn{Account: c.account, Close: true})
	e.wantHeld(t, c, 0, 0)
	e.sound(t)
}

// Its owner has given it up by then.
func TestATurnWaitsForAWalletNoLongerThanTwoSeconds(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	e.locksWallet(t, c)
	_, err := e.store.Turn(t.Context(), o.owner, []slice.Turn{{Account: c.account}})
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		t.Fatalf("a turn that waits: got the error %v, want one of the database", err)
	}
	same(t, "SQLSTATE of a turn that waits", pe.Code, "57014")
}

// locksWallet locks the wallet of c until the transaction ends, or the test.
func (e *env) locksWallet(t testing.TB, c consumer) pgx.Tx {
	t.Helper()
	tx, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	const lock = `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`
	if _, err := tx.Exec(t.Context(), lock, [16]byte(c.account)); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestASliceWhoseOwnerDiesIsStrandedAlsoWhenNobodyAsks(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c, other := e.sliceOwner(t), e.consumer(t, 100*money.USD), e.consumer(t, 100*money.USD)
	o.opens(t, c, 20)
	o.dies(t)
	o.opens(t, other, 20)
	e.reclaims(t, time.Now().Add(-time.Hour), 0)
	e.reclaims(t, ever, 1)
	e.reclaims(t, ever, 0)
	if n := scan[int](t, e, `SELECT count(*) FROM slice WHERE state = 'stranded'`); n != 1 {
		t.Errorf("stranded slices: got %d, want 1", n)
	}
	e.exec(t, `UPDATE slice SET reclaim_at = now() WHERE state = 'stranded'`)
	e.reclaims(t, ever, 1)
	e.wantHeld(t, c, 0, 0)
	e.wantHeld(t, other, 20, 20)
	e.sound(t)
}

func TestAnAccountThatIsNotPlainHasNoSlice(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o := e.sliceOwner(t)
	onPlan, capped, many, frozen, later := e.consumer(t, money.USD), e.consumer(t, money.USD), e.consumer(t, money.USD),
		e.consumer(t, money.USD), e.consumer(t, money.USD)
	e.exec(t, `INSERT INTO account_plan VALUES ($1, 'pro', now() - interval '1 day')`, [16]byte(onPlan.account))
	e.exec(t, `INSERT INTO account_plan VALUES ($1, 'pro', now() + interval '1 day', now() + interval '2 days')`,
		[16]byte(later.account))
	if _, err := e.spending().SetCaps(t.Context(), capped.account, caps(30, 90)); err != nil {
		t.Fatal(err)
	}
	e.exec(t, `INSERT INTO consumer_key (id, account_id, name, hash, prefix)
		SELECT gen_random_uuid(), $1, '', sha256(n::text::bytea), '' FROM generate_series(2, $2) n`,
		[16]byte(many.account), slice.MaxKeys)
	e.exec(t, `UPDATE account SET state = 'frozen' WHERE id = $1`, [16]byte(frozen.account))
	for what, wanted := range map[string]struct {
		consumer
		open, plain bool
	}{"with a plan": {onPlan, false, false}, "with a plan that begins later": {later, false, false},
		"with caps": {capped, false, false}, "with as many keys as there may be": {many, true, true},
		"that is frozen": {frozen, false, true}, "that nobody knows": {consumer{}, false, false}} {
		s := o.turn(t, slice.Turn{Account: wanted.account, Want: cent})[0]
		same(t, "an account "+what+": has a slice", s.Epoch != 0, wanted.open)
		same(t, "an account "+what+": plain", s.Plain, wanted.plain)
	}
	o.turn(t, slice.Turn{Account: many.account, Epoch: scan[int64](t, e, `SELECT epoch FROM slice`), Close: true})
	e.exec(t, `INSERT INTO consumer_key (id, account_id, name, hash, prefix)
		VALUES (gen_random_uuid(), $1, '', sha256('1'), '')`, [16]byte(many.account))
	if s := o.turn(t, slice.Turn{Account: many.account})[0]; s.Plain {
		t.Error("an account with one key more: got it plain, want it not")
	}
}

func TestAnOwnerThatLivesKeepsItsSlice(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	o.opens(t, c, 20)
	s := e.sliceOwner(t).turn(t, slice.Turn{Account: c.account, Want: cent})[0]
	same(t, "for another owner: epoch", s.Epoch, 0)
	same(t, "for another owner: plain", s.Plain, true)
	e.wantHeld(t, c, 20, 20)
}

func TestATurnNeverMovesARateBack(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.LLMPerMinute, limits.ZeroPricedPerMinute = 100, 100
	e := setup(t, limits)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	for _, ahead := range []time.Duration{40 * time.Second, 10 * time.Second} {
		s = o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Now: s.Account.Now, ZeroPriced: ahead,
			Ahead: map[ids.KeyID][limit.Classes]time.Duration{c.key: {ahead}}})[0]
		if got := s.Keys[0].Ahead[0]; got < 35*time.Second || got > 40*time.Second {
			t.Errorf("the key's rate: got %v ahead, want 40 s less what passed", got)
		}
		if got := s.Account.ZeroPriced; got < 35*time.Second || got > 40*time.Second {
			t.Errorf("the rate of zero-priced models: got %v ahead, want 40 s less what passed", got)
		}
	}
}

func TestTheSlicesOfAllKeysOfABatchAreNamed(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, without := e.sliceOwner(t), e.consumer(t, money.USD)
	want := map[ids.KeyID]ids.AccountID{}
	reservations := []hold.Reservation{e.reservation(t, without, 1)}
	for range 3 {
		c := e.consumer(t, 100*money.USD)
		o.opens(t, c, 20)
		want[c.key] = c.account
		reservations = append(reservations, e.reservation(t, c, 1), e.reservation(t, c, 1))
	}
	_, err := e.store.Admit(t.Context(), reservations)
	met, ok := errors.AsType[hold.SlicesOpen](err)
	if !ok {
		t.Fatalf("beside slices: got the error %v, want one of SlicesOpen", err)
	}
	got := map[ids.KeyID]ids.AccountID{}
	for key, open := range met.Of {
		got[key] = open.Account
		if owner := (hold.SliceOpen{Account: open.Account, Owner: o.owner.ID, Address: o.owner.Address}); open != owner {
			t.Errorf("the slice of a key: got %v, want %v", open, owner)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("accounts with slices by key: got %v, want %v", got, want)
	}
}

func TestTheExactPathDecidesNothingBesideASlice(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c, other := e.sliceOwner(t), e.consumer(t, 100*money.USD), e.consumer(t, money.USD)
	s := o.opens(t, c, 20)
	plain, whole := e.reservation(t, c, 1), e.reservation(t, c, 1)
	whole.Gateway = true
	for _, r := range []hold.Reservation{plain, whole} {
		_, err := e.store.Admit(t.Context(), []hold.Reservation{e.reservation(t, other, 1), r})
		var open hold.SliceOpen
		if !errors.As(err, &open) {
			t.Fatalf("beside a slice: got the error %v, want a SliceOpen", err)
		}
		if want := (hold.SliceOpen{Account: c.account, Owner: o.owner.ID, Address: o.owner.Address}); open != want {
			t.Errorf("the slice: got %+v, want %+v", open, want)
		}
	}
	e.wantHeld(t, c, 20, 20)
	o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Close: true})
	e.admitOne(t, plain, hold.Admitted)
}

// A stranded slice refuses what its owner may have admitted, also where nothing is admitted.
func TestTheExactPathStrandsTheSliceOfADeadOwnerOnce(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.LLMPerMinute, limits.Concurrent = 10, 11
	for name, gateway := range map[string]bool{"by plain statements": false, "by admit_requests": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, limits)
			o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
			if s := o.opens(t, c, 20); s.Places != 5 {
				t.Fatalf("places: got %d, want 5", s.Places)
			}
			o.dies(t)
			ask := func() hold.Reservation {
				r := e.reservation(t, c, 1)
				r.Gateway = gateway
				return r
			}
			e.admitOne(t, ask(), hold.RateLimited)
			if n := scan[int](t, e, `SELECT count(*) FROM slice WHERE state = 'stranded'`); n != 1 {
				t.Errorf("stranded slices: got %d, want 1", n)
			}
			e.exec(t, `UPDATE key_rate SET full_at = now()`)
			for range 6 {
				e.admitOne(t, ask(), hold.Admitted)
			}
			e.admitOne(t, ask(), hold.TooManyOpen)
			e.wantHeld(t, c, 20, 26)
			e.sound(t)
		})
	}
}
