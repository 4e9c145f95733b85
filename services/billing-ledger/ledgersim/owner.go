package ledgersim

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/slice"
)

// TurnInterval is the pause between the turns of a process that has slices. It may be longer, as where the
// database is slow: no promise rests on it but slice.Trust.
const TurnInterval = slice.Every

const (
	// idleAfter is how long a slice stays open without an admission.
	idleAfter = 20 * time.Second
	// maxIDAge is how old a request may be that is admitted from memory. One that comes again later may
	// have been admitted by an earlier process.
	maxIDAge = time.Second
	// wantedCredit and wantedPlaces are what a slice should have.
	wantedCredit = money.USD
	wantedPlaces = 8
)

// owner admits from slices, one step after the other. It keeps the promises of package slice, whose owner
// has simulations of its own, and is eager: an account gets a slice with its first request, so that the few
// requests of a history have tickets. Its memory is lost with the process.
type owner struct {
	id    slice.Owner
	db    *Database
	clock clock.Clock // runs evenly

	accounts map[ids.AccountID]*owned
	keys     map[ids.KeyID]ids.AccountID
	// unticketed is the planted fault of Faults.TicketIgnored.
	unticketed bool
}

// owned is an account whose slice is open, or wanted where the epoch is 0.
type owned struct {
	epoch    int64
	decider  hold.Account
	keys     map[ids.KeyID]*hold.Key
	places   int64
	pins     []hold.Pin
	seen     map[ids.RequestID]bool
	trusted  time.Time
	admitted time.Time
}

func newOwner(id [16]byte, db *Database, even clock.Clock) *owner {
	return &owner{id: slice.Owner{ID: id}, db: db, clock: even, accounts: map[ids.AccountID]*owned{},
		keys: map[ids.KeyID]ids.AccountID{}, unticketed: db.faults.TicketIgnored}
}

// Admit implements hold.Slices.
func (o *owner) Admit(_ context.Context, r hold.Reservation) (hold.Decision, hold.Pin, bool) {
	a, now := o.accounts[o.keys[r.Key]], o.clock.Now()
	if a == nil || a.epoch == 0 || !now.Before(a.trusted) || a.places <= 0 || a.seen[r.Request] ||
		a.decider.Now.Sub(r.Request.Time()).Abs() > maxIDAge || a.keys[r.Key] == nil {
		return hold.Decision{}, hold.Pin{}, false
	}
	d := a.decider.Decide(a.keys[r.Key], r)
	if d.Outcome != hold.Admitted {
		return hold.Decision{}, hold.Pin{}, false
	}
	o.db.FromMemory++
	a.places--
	a.admitted, a.seen[r.Request] = now, true
	a.pins = append(a.pins, r.Pin(d.Admission, a.decider.Now, a.epoch))
	return d, a.pins[len(a.pins)-1], true
}

// Leave implements hold.Slices.
func (o *owner) Leave(ctx context.Context, key ids.KeyID) error {
	if a := o.accounts[o.keys[key]]; a != nil && a.epoch != 0 {
		return o.Recall(ctx, o.keys[key])
	}
	return nil
}

// Recall implements hold.Slices.
func (o *owner) Recall(ctx context.Context, account ids.AccountID) error {
	a := o.accounts[account]
	if a == nil {
		a = &owned{}
		o.accounts[account] = a
	}
	return o.turn(ctx, account, a, true)
}

// Saw implements hold.Slices.
func (o *owner) Saw(r hold.Reservation, d hold.Decision) {
	if account := d.Admission.Account; d.Outcome == hold.Admitted && o.accounts[account] == nil {
		o.accounts[account] = &owned{admitted: o.clock.Now()}
		o.keys[r.Key] = account
	}
}

// Owns implements hold.Slices.
func (o *owner) Owns(open hold.SliceOpen) bool { return open.Owner == o.id.ID }

// Write implements hold.PinWriter.
func (o *owner) Write(ctx context.Context, pins []hold.Pin) error {
	if o.unticketed {
		return nil
	}
	var others []hold.Pin
	for i := range pins {
		p := &pins[i]
		a := o.accounts[p.Account]
		if a == nil || !slices.ContainsFunc(a.pins, func(mine hold.Pin) bool { return mine.Request == p.Request }) {
			others = append(others, *p)
		} else if err := o.turn(ctx, p.Account, a, false); err != nil {
			return err
		}
	}
	if len(others) == 0 {
		return nil
	}
	return exec(o.db, func() error {
		before := len(o.db.Holds())
		err := o.db.WritePins(ctx, others)
		o.db.FromTickets += len(o.db.Holds()) - before
		return err
	})
}

// turns takes a turn of each account. What fails is tried again by the next.
func (o *owner) turns(ctx context.Context) {
	for _, account := range slices.SortedFunc(maps.Keys(o.accounts), func(a, b ids.AccountID) int {
		return bytes.Compare(a[:], b[:])
	}) {
		a := o.accounts[account]
		_ = o.turn(ctx, account, a, o.clock.Now().Sub(a.admitted) > idleAfter)
	}
}

// turn writes everything, and fills or closes the slice. Nothing is admitted meanwhile.
func (o *owner) turn(ctx context.Context, account ids.AccountID, a *owned, closes bool) error {
	began := o.clock.Now()
	t := slice.Turn{Account: account, Epoch: a.epoch, Pins: a.pins, Want: wantedCredit, Places: wantedPlaces,
		Close: closes}
	states, err := transact(o.db, func() ([]slice.State, error) { return o.db.Turn(ctx, o.id, []slice.Turn{t}) })
	if err != nil {
		return fmt.Errorf("take a turn: %w", err)
	}
	st := states[0]
	a.pins = nil
	if st.Epoch == 0 {
		delete(o.accounts, account)
		return nil
	}
	if a.seen == nil {
		a.seen = map[ids.RequestID]bool{}
	}
	a.epoch, a.places, a.trusted = st.Epoch, st.Places, began.Add(slice.Trust)
	a.decider = st.Account
	a.decider.Free = st.Amount
	a.keys = map[ids.KeyID]*hold.Key{}
	for i := range st.Keys {
		k := &st.Keys[i].Key
		a.keys[k.ID] = k
		o.keys[k.ID] = account
	}
	return nil
}
