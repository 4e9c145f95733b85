package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/posting"
	"svc.internal/services/billing-ledger/internal/slice"
	"svc.internal/services/billing-ledger/internal/store"
)

// onRecall has o close its slice s when it is recalled, and returns how often it was.
func (o *sliceOwner) onRecall(t testing.TB, s *slice.State) *int {
	t.Helper()
	n := new(int)
	o.store.OnRecall(func(_ context.Context, open hold.SliceOpen) error {
		*n++
		same(t, "owner of the recalled slice", open.Owner, o.owner.ID)
		same(t, "address of the recalled slice", open.Address, o.owner.Address)
		o.turn(t, slice.Turn{Account: open.Account, Epoch: s.Epoch, Close: true})
		return nil
	})
	return n
}

// grantOf is the entry that gave c its credit.
func (e *env) grantOf(t testing.TB, c consumer) ids.EntryID {
	t.Helper()
	return scan[ids.EntryID](t, e, `SELECT entry_id FROM posting WHERE owner_id = $1`, [16]byte(c.account))
}

func TestAChangeRecallsTheSliceAndIsMade(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o := e.sliceOwner(t)
	var s slice.State
	recalled := o.onRecall(t, &s)
	for name, change := range map[string]func(c consumer) error{
		"a key is revoked": func(c consumer) error { return e.keys.Revoke(t.Context(), c.key) },
		"its owner revokes a key": func(c consumer) error {
			_, err := e.store.RevokeKeyOf(t.Context(), c.account, c.key)
			return err
		},
		"a key is issued": func(c consumer) error { e.issue(t, c.account, key.IssueRequest{}); return nil },
		"it caps itself": func(c consumer) error {
			_, err := e.store.SetOwnCaps(t.Context(), c.account, caps(3, 9))
			return err
		},
		"an operator gives it a plan": func(c consumer) error {
			return e.store.Subscribe(t.Context(), c.account, "pro", time.Time{})
		},
		"its limits change": func(c consumer) error {
			_, err := e.store.SetLimits(t.Context(), c.account, limit.Limits{RequestsPerMinute: 7})
			return err
		},
		"it is frozen": func(c consumer) error {
			_, err := e.accounts.SetState(t.Context(), c.account, account.Frozen, "test")
			return err
		},
		"what it has is taken back": func(c consumer) error {
			_, err := e.store.Reverse(t.Context(), entryID(t), e.grantOf(t, c), "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := e.consumer(t, 100*money.USD)
			s = o.opens(t, c, 200)
			*recalled = 0
			if err := change(c); err != nil {
				t.Fatal(err)
			}
			if *recalled != 1 {
				t.Errorf("recalls: got %d, want 1", *recalled)
			}
			e.wantHeld(t, c, 0, 0)
			e.sound(t)
		})
	}
}

func TestARevokedKeyIsRefusedAtItsNextRequest(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	o.onRecall(t, &s)
	if err := e.keys.Revoke(t.Context(), c.key); err != nil {
		t.Fatal(err)
	}
	e.admitOne(t, e.reservation(t, c, 1), hold.KeyRevoked)
	without := o.turn(t, slice.Turn{Account: c.account, Want: cent})[0]
	same(t, "epoch of a slice without a key", without.Epoch, 0)
	same(t, "keys", len(without.Keys), 0)
}

func TestAChangeStrandsTheSliceOfADeadOwner(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	recalled := o.onRecall(t, &s)
	o.dies(t)
	if err := e.keys.Revoke(t.Context(), c.key); err != nil {
		t.Fatal(err)
	}
	if *recalled != 0 {
		t.Errorf("recalls: got %d, want none of a dead owner", *recalled)
	}
	e.wantHeld(t, c, 20, 20)
	if n := scan[int](t, e, `SELECT count(*) FROM slice WHERE state = 'stranded'`); n != 1 {
		t.Errorf("stranded slices: got %d, want 1", n)
	}
	e.sound(t)
}

func TestAChangeGivesUpOnASliceThatNobodyCloses(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	o.opens(t, c, 20)
	e.exec(t, `UPDATE slice SET alive_until = now() + interval '1 hour'`)
	recalls := 0
	e.store.OnRecall(func(context.Context, hold.SliceOpen) error { recalls++; return nil })
	err := e.keys.Revoke(t.Context(), c.key)
	var open hold.SliceOpen
	if !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("got the error %v, want %v", err, fault.ServiceUnavailable)
	}
	if !errors.As(err, &open) {
		t.Errorf("got the error %v, want one of a SliceOpen", err)
	}
	if recalls != 1 {
		t.Errorf("recalls of one slice: got %d, want 1", recalls)
	}
	if !scan[bool](t, e, `SELECT recalled FROM slice`) {
		t.Error("the slice: got it not recalled through the database, want it recalled")
	}
}

// The owner goes on admitting, so it never closes its slice by itself.
func TestASliceIsRecalledThroughTheDatabaseFromAnOwnerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	replicas, stop := e.ownerReplicas(t)
	c := e.consumer(t, 100*money.USD)
	peer := store.New(e.pool, unlimited, terms)
	peer.OnRecall(func(context.Context, hold.SliceOpen) error { return errors.New("the owner cannot be reached") })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	admit := func() (hold.Admission, error) {
		return replicas[0].admitter.Admit(ctx, hold.AdmitRequest{Request: request(t), Key: c.key, Model: "acme/large",
			MaxCompletionTokens: 1})
	}
	for a, err := admit(); a.Pin == nil; a, err = admit() {
		if err != nil {
			t.Fatal(err)
		}
	}
	revoked := make(chan error, 1)
	go func() {
		_, err := peer.RevokeKeyOf(ctx, c.account, c.key)
		revoked <- err
	}()
	for range clock.Every(ctx, 20*time.Millisecond) {
		if len(revoked) > 0 {
			break
		}
		if _, err := admit(); err != nil && !fault.Is(err, fault.KeyRevoked) {
			t.Errorf("a request while the key is revoked: got the error %v, want none but that", err)
		}
	}
	if err := <-revoked; err != nil {
		t.Fatalf("revoke: got the error %v, want none", err)
	}
	if a, err := admit(); err == nil {
		t.Errorf("a request of the revoked key: got the admission %+v, want none", a)
	}
	stop()
	e.sound(t)
}

// An owner that does not heed a recall lives no longer than it did.
func TestASliceThatIsRecalledGetsNeitherCreditNorTime(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	e.exec(t, `UPDATE slice SET recalled = true, alive_until = now() + interval '1 second'`)
	until := scan[time.Time](t, e, `SELECT alive_until FROM slice`)
	for _, epoch := range []int64{s.Epoch, 0} {
		got := o.turn(t, slice.Turn{Account: c.account, Epoch: epoch, Want: 200 * cent, Places: 100})[0]
		same(t, "a turn: epoch", got.Epoch, s.Epoch)
		same(t, "a turn: recalled", got.Recalled, true)
		same(t, "a turn: plain", got.Plain, true)
		same(t, "a turn: credit", got.Amount, 0)
		same(t, "a turn: places", got.Places, 0)
	}
	e.wantHeld(t, c, 20, 20)
	if got := scan[time.Time](t, e, `SELECT alive_until FROM slice`); !got.Equal(until) {
		t.Errorf("the owner lives until %v, want %v as before", got, until)
	}
	end := o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Close: true})[0]
	same(t, "the end: epoch", end.Epoch, 0)
	same(t, "the end: recalled", end.Recalled, false)
	e.wantHeld(t, c, 0, 0)
	e.sound(t)
}

func TestAChangeThatIsGivenUpWaitsNoLonger(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	o.opens(t, c, 20)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller has left")
	e.store.OnRecall(func(context.Context, hold.SliceOpen) error { cancel(gone); return gone })
	if err := e.keys.Revoke(ctx, c.key); !errors.Is(err, gone) {
		t.Errorf("got the error %v, want %v", err, gone)
	}
}

// What is taken from a consumer is bounded by what no request holds, slices or not.
func TestAnEntryThatDependsOnCreditSeesThatOfSlices(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	o.onRecall(t, &s)
	grant := func(has posting.Has) (ledger.Entry, error) {
		if has.Unheld != 100*money.USD {
			t.Errorf("what no request holds: got %v, want all", has.Unheld)
		}
		return ledger.Grant(entryID(t), c.account, 5000, "more", ""), nil
	}
	_, err := e.store.PostFrom(t.Context(), posting.Needs{Account: c.account}, grant)
	if err != nil {
		t.Fatal(err)
	}
}

// What changes nothing that an owner decides by, it does not hear of.
func TestOtherChangesLeaveASliceAlone(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	recalled := o.onRecall(t, &s)
	if _, _, err := e.accounts.Grant(t.Context(), c.account, cent, request(t).String(), "test"); err != nil {
		t.Fatal(err)
	}
	fifty := ledger.Grant(entryID(t), c.account, 50*money.USD, "given", "")
	post(t, e, fifty)
	if _, err := e.store.Reverse(t.Context(), entryID(t), fifty.ID, ""); err != nil {
		t.Fatal(err)
	}
	e.exec(t, `UPDATE consumer_key SET name = 'other' WHERE id = $1`, [16]byte(c.key))
	if *recalled != 0 {
		t.Errorf("recalls: got %d, want none", *recalled)
	}
	// People see what is held for requests.
	e.wantWallet(t, c, 100*money.USD+cent, 0)
	e.wantHeld(t, c, 20, 20)
	e.sound(t)
}
