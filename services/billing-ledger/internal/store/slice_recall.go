package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/slice"
)

// Recall has the owner of a slice close it. Nil does not promise that the slice is closed, because the owner
// may be dead.
type Recall func(ctx context.Context, open hold.SliceOpen) error

// OnRecall sets how slices are recalled that are in the way of a change. It is called before the
// store is used.
func (s *Store) OnRecall(recall Recall) { s.recall = recall }

const (
	// stateSliceOpen is the SQLSTATE of keep_slices_out.
	stateSliceOpen = "SL001"
	// maxRecalls bounds how often a transaction runs that meets slices. Between the runs after the first
	// recall it waits for recallPause. These pauses are slice.Lease in all, so the slice of a dead owner, or
	// of one that was recalled through the database, has ended by the last run.
	maxRecalls  = 5
	recallPause = slice.Lease / 3
)

// recallByRow recalls a slice through the database. Its owner hears of it at its next turn, within a second.
const recallByRow = `UPDATE slice SET recalled = true WHERE account_id = $1 AND owner = $2 AND state = 'open'`

// recalling runs a transaction, and runs it again after the recall of each slice that was in its way. An
// owner that cannot be reached, or did not close its slice, is asked through the database, because it
// lives as long as it reaches that.
func (s *Store) recalling(ctx context.Context, fn func() error) error {
	var last hold.SliceOpen
	for try := 1; ; try++ {
		err := fn()
		open, ok := sliceOpen(err)
		if !ok {
			return err
		}
		if try == maxRecalls {
			return fault.Wrap(open, fault.Unavailable, fault.ServiceUnavailable,
				"the account's requests are admitted elsewhere, and this could not be stopped").After(time.Second)
		}
		again := open == last
		last = open
		if !again && s.recall != nil && s.recall(ctx, open) == nil {
			continue
		}
		if err := s.RecallByRow(ctx, open); err != nil {
			return errors.Join(open, err, context.Cause(ctx))
		}
		if clock.Sleep(ctx, recallPause) != nil {
			return fmt.Errorf("wait for the end of a slice: %w", errors.Join(open, context.Cause(ctx)))
		}
	}
}

// RecallByRow recalls a slice through the database. Its owner closes it at its next turn, within a second.
func (s *Store) RecallByRow(ctx context.Context, open hold.SliceOpen) error {
	err := pg.Retry(ctx, func() error {
		_, err := s.pool.Exec(ctx, recallByRow, [16]byte(open.Account), open.Owner)
		return err
	})
	if err != nil {
		return fmt.Errorf("recall a slice through the database: %w", err)
	}
	return nil
}

// sliceOpen returns what an error of keep_slices_out says.
func sliceOpen(err error) (hold.SliceOpen, bool) {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != stateSliceOpen {
		return hold.SliceOpen{}, false
	}
	owner, address, _ := strings.Cut(pe.Hint, " ")
	var account, of pgtype.UUID
	if account.Scan(pe.Detail) != nil || of.Scan(owner) != nil {
		return hold.SliceOpen{}, false
	}
	return hold.SliceOpen{Account: account.Bytes, Owner: of.Bytes, Address: address}, true
}

// selectOpen reads which keys have accounts with slices whose owners live.
const selectOpen = `SELECT ck.id, s.account_id, s.owner, s.address FROM consumer_key ck
	JOIN slice s ON s.account_id = ck.account_id AND s.state = 'open' AND s.alive_until > now()
	WHERE ck.id = ANY ($1)`

// slicesOf returns an error that names the open slice of each key of the reservations. The database named first.
// Where the reservations have one key, or the slices cannot be read, the error is first alone.
func (s *Store) slicesOf(ctx context.Context, reservations []hold.Reservation, first hold.SliceOpen) error {
	keys := make([]ids.KeyID, 0, len(reservations))
	for i := range reservations {
		keys = append(keys, reservations[i].Key)
	}
	slices.SortFunc(keys, func(a, b ids.KeyID) int { return bytes.Compare(a[:], b[:]) })
	if keys = slices.Compact(keys); len(keys) < 2 {
		return first
	}
	rows, err := s.pool.Query(ctx, selectOpen, raw(keys))
	if err != nil {
		return first
	}
	all := hold.SlicesOpen{First: first, Of: map[ids.KeyID]hold.SliceOpen{}}
	var key, account, owner [16]byte
	var address string
	_, err = pgx.ForEachRow(rows, []any{&key, &account, &owner, &address}, func() error {
		all.Of[key] = hold.SliceOpen{Account: account, Owner: owner, Address: address}
		return nil
	})
	if err != nil {
		return first
	}
	return all
}
