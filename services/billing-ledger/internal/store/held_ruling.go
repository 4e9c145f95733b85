package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// ReleaseHeld ends what is held of requests; see earning.HeldStore.
func (s *Store) ReleaseHeld(
	ctx context.Context, requests []ids.RequestID, reason string,
) (list []earning.Held, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if list, err = lockHeld(ctx, tx, requests); err != nil {
			return err
		}
		_, err = rule(ctx, tx, list, earning.Released, releasedEarnings, reason)
		return err
	})
	return list, err
}

// ForfeitHeld ends what is held of requests and posts that it is forfeited; see
// earning.HeldStore. The providers are locked first, as by everybody who takes earnings.
func (s *Store) ForfeitHeld(
	ctx context.Context, newID func() (ids.EntryID, error), requests []ids.RequestID, reason string,
) (list []earning.Held, err error) {
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) {
		if _, err := tx.Exec(ctx, `SELECT lock_earnings(array_agg(provider_id)) FROM held_earning
			WHERE request_id = ANY ($1)`, raw(requests)); err != nil {
			return nil, fmt.Errorf("lock earnings: %w", err)
		}
		if list, err = lockHeld(ctx, tx, requests); err != nil {
			return nil, err
		}
		for _, h := range list {
			if h.PlanMonth == "" && h.Ended == "" {
				return nil, earning.NotByPlan(h.Request)
			}
		}
		ended, err := rule(ctx, tx, list, earning.Forfeited, forfeitEarnings, reason)
		if err != nil {
			return nil, err
		}
		entries, err := forfeits(ctx, tx, newID, ended)
		if err != nil {
			return nil, err
		}
		return post(ctx, tx, entries, nil)
	})
	return list, err
}

// lockHeld reads the held earnings of requests under a lock of their rows.
func lockHeld(ctx context.Context, tx pgx.Tx, requests []ids.RequestID) ([]earning.Held, error) {
	rows, err := tx.Query(ctx, `SELECT `+heldColumns+`
		FROM held_earning WHERE request_id = ANY ($1) ORDER BY request_id FOR UPDATE`, raw(requests))
	if err != nil {
		return nil, fmt.Errorf("lock held earnings: %w", err)
	}
	list, err := scanHeld(rows)
	if err != nil {
		return nil, err
	}
	return list, earning.Complete(requests, list)
}

// rule ends, under the name of an operator, what of a list is held, and returns that. The
// list is as it stands then.
func rule(
	ctx context.Context, tx pgx.Tx, list []earning.Held, as earning.End, did action, reason string,
) ([]earning.Held, error) {
	requests := make([]ids.RequestID, len(list))
	for i, h := range list {
		requests[i] = h.Request
	}
	rows, err := tx.Query(ctx, `UPDATE held_earning SET ended_as = $2, ended_at = now(), reason = $3
		WHERE request_id = ANY ($1) AND ended_as IS NULL RETURNING `+heldColumns, raw(requests), string(as), reason)
	if err != nil {
		return nil, fmt.Errorf("end held earnings: %w", err)
	}
	ended, err := scanHeld(rows)
	if err != nil {
		return nil, err
	}
	for _, h := range ended {
		i := slices.IndexFunc(list, func(l earning.Held) bool { return l.Request == h.Request })
		list[i] = h
		if err := addAct(ctx, tx, did, [16]byte(h.Request), details{
			"provider_id": h.Provider.String(), "payout_usd": h.Payout.String(), "reason": reason,
		}); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// forfeits makes the entries of what is forfeited: line 25, and, of what was withheld at the
// close of its month, what nobody claims of the pool.
func forfeits(
	ctx context.Context, tx pgx.Tx, newID func() (ids.EntryID, error), ended []earning.Held,
) ([]ledger.Entry, error) {
	withheld, err := withheldOf(ctx, tx, ended)
	if err != nil {
		return nil, err
	}
	type share struct {
		provider ids.ProviderID
		month    string
	}
	waits := map[share]ledger.Withheld{}
	var entries []ledger.Entry
	for _, h := range ended {
		f := posting.Forfeited{Request: h.Request, Provider: h.Provider, Month: ledger.Month(h.PlanMonth), Earned: h.Payout}
		if withheld[h.Request] {
			of := share{h.Provider, h.PlanMonth}
			w, known := waits[of]
			if !known {
				if w, err = readWaits(ctx, tx, f.Month, f.Provider); err != nil {
					return nil, err
				}
			}
			if f.Unpaid, waits[of], err = w.End(h.Payout); err != nil {
				return nil, fmt.Errorf("forfeit request %s: %w", h.Request, err)
			}
		}
		made, err := f.Entries(newID)
		if err != nil {
			return nil, err
		}
		entries = append(entries, made...)
	}
	return entries, nil
}

// withheldOf returns which held earnings were withheld at the close of their month.
func withheldOf(ctx context.Context, tx pgx.Tx, list []earning.Held) (map[ids.RequestID]bool, error) {
	withheld := map[ids.RequestID]bool{}
	for _, h := range list {
		withheld[h.Request] = false
	}
	rows, err := tx.Query(ctx, `SELECT request_id FROM held_earning WHERE request_id = ANY ($1) AND withheld`,
		raw(slices.Collect(maps.Keys(withheld))))
	if err != nil {
		return nil, fmt.Errorf("look for withheld earnings: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, fmt.Errorf("look for withheld earnings: %w", err)
	}
	for _, request := range found {
		withheld[request] = true
	}
	return withheld, nil
}
