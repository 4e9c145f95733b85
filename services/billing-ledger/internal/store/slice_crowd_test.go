package store_test

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/slice"
)

// crowdOwners own the slices of a crowd.
var crowdOwners = [2]slice.Owner{{ID: [16]byte{1}, Address: "one:1"}, {ID: [16]byte{2}, Address: "two:1"}}

// openSlice is the open slice of an account; its epoch is 0 when there is none.
func (c *crowd) openSlice(ctx context.Context, account ids.AccountID) (owner slice.Owner, epoch int64, err error) {
	err = c.pool.QueryRow(ctx, `SELECT owner, address, epoch FROM slice WHERE account_id = $1 AND state = 'open'`,
		[16]byte(account)).Scan(&owner.ID, &owner.Address, &epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return crowdOwners[0], 0, nil
	}
	return owner, epoch, err
}

// recalls closes a slice, as its owner does.
func (c *crowd) recalls(ctx context.Context, open hold.SliceOpen) error {
	_, epoch, err := c.openSlice(ctx, open.Account)
	if err != nil {
		return err
	}
	_, err = c.store.Turn(ctx, slice.Owner{ID: open.Owner, Address: open.Address},
		[]slice.Turn{{Account: open.Account, Epoch: epoch, Close: true}})
	return err
}

// turns has an owner take some turns with what it admitted meanwhile. By then some of its slices are
// another's, or are gone.
func (c *crowd) turns(r *rand.Rand) error {
	owner := crowdOwners[r.IntN(2)]
	var turns []slice.Turn
	for _, i := range r.Perm(len(c.consumers) / 2)[:1+r.IntN(3)] {
		of := c.consumers[2*i+r.IntN(2)]
		_, epoch, err := c.openSlice(c.t.Context(), of.account)
		if err != nil {
			return err
		}
		t := slice.Turn{Account: of.account, Epoch: epoch, Want: 10 * cent, Places: 5, Close: r.IntN(3) == 0}
		for range r.IntN(3) {
			reservation := c.reservation(c.t, of, int64(r.IntN(3)))
			t.Pins = append(t.Pins, reservation.Pin(hold.Admission{Account: of.account, Billing: reservation.Billing,
				Held: reservation.Amount, Price: reservation.Price, Rates: reservation.Rates},
				reservation.Request.Time(), epoch))
			c.mu.Lock()
			c.claims = append(c.claims, reservation)
			c.mu.Unlock()
		}
		turns = append(turns, t)
	}
	var pins []hold.Pin
	for _, t := range turns {
		pins = append(pins, t.Pins...)
	}
	c.pinned.Add(int64(len(pins)))
	if r.IntN(2) == 0 { // others have the tickets
		if err := c.store.WritePins(c.t.Context(), pins); err != nil {
			return err
		}
	}
	_, err := c.store.Turn(c.t.Context(), owner, turns)
	return err
}

// upsetSlices has an owner die, and time pass.
func (c *crowd) upsetSlices(r *rand.Rand) error {
	const one = ` WHERE ctid = (SELECT ctid FROM slice WHERE state = $1 LIMIT 1 OFFSET $2)`
	c.exec(c.t, `UPDATE slice SET alive_until = now() - interval '1 second'`+one, "open", r.IntN(3))
	c.exec(c.t, `UPDATE slice SET reclaim_at = now() - interval '1 second'`+one, "stranded", 0)
	_, err := c.store.ReclaimSlices(c.t.Context(), ever, 2)
	return err
}
