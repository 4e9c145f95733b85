package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
)

// The kinds of operations.
const (
	operationPayout  = "payout"
	operationConvert = "convert"
)

// operationOf returns what was made under an operation's key; ok is false where nothing was. It fails with
// idempotency_key_reused where something else was asked for.
func operationOf(ctx context.Context, db querier, kind string, op payout.Operation) (id payout.ID, ok bool, err error) {
	rows, err := db.Query(ctx, `SELECT result_id, sha256 FROM operation WHERE provider_id = $1 AND kind = $2 AND key = $3`,
		op.ProviderID, kind, op.Key)
	if err != nil {
		return payout.ID{}, false, err
	}
	var digest []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &digest}, func() error {
		ok = true
		if !bytes.Equal(digest, op.Digest[:]) {
			return fault.New(fault.Precondition, fault.IdempotencyKeyReused,
				"the Idempotency-Key stands for another request").On("Idempotency-Key")
		}
		return nil
	})
	return id, ok, err
}

func insertOperation(ctx context.Context, tx pgx.Tx, kind string, op payout.Operation, id payout.ID) error {
	_, err := tx.Exec(ctx, `INSERT INTO operation (provider_id, kind, key, sha256, result_id) VALUES ($1, $2, $3, $4, $5)`,
		op.ProviderID, kind, op.Key, op.Digest[:], id)
	return err
}

// Now implements payout.Store: the database's clock.
func (s Payouts) Now(ctx context.Context) (now time.Time, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}

// Known implements payout.Store.
func (s Payouts) Known(ctx context.Context, op payout.Operation) (payout.Payout, bool, error) {
	id, ok, err := operationOf(ctx, s.pool, operationPayout, op)
	if err != nil || !ok {
		return payout.Payout{}, false, err
	}
	p, err := s.Get(ctx, id)
	return p, err == nil, err
}

// Insert implements payout.Store. Two requests of one provider wait for each other at the provider's row.
func (s Payouts) Insert(
	ctx context.Context, d payout.Draft, op payout.Operation, may func(chain.ID) error,
) (p payout.Payout, fresh bool, err error) {
	err = s.inPayoutTx(ctx, "insert a payout", func(tx pgx.Tx) error {
		settles, err := LockProvider(ctx, tx, d.ProviderID)
		if err != nil {
			return err
		}
		id, known, err := operationOf(ctx, tx, operationPayout, op)
		if err != nil {
			return err
		}
		if fresh = !known; fresh {
			d.Chain, id = settles, d.ID
			if err := insertPayout(ctx, tx, d, op, may); err != nil {
				return err
			}
		}
		p, _, err = onePayout(ctx, tx, id)
		return err
	})
	switch {
	case pg.IsUnique(err, "payout_one_open"):
		return payout.Payout{}, false, pending()
	case pg.IsUnique(err, "payout_follows_one"), pg.IsCheck(err, "payout_hour"):
		return payout.Payout{}, false, tooFrequent(0)
	case pg.IsCheck(err, "payout_beside_refund"):
		return payout.Payout{}, false, fault.New(fault.Conflict, payout.RefundOpen,
			"the provider's collateral is being refunded: nothing is paid out beside it")
	case err != nil:
		return payout.Payout{}, false, err
	}
	return p, fresh, nil
}

func insertPayout(
	ctx context.Context, tx pgx.Tx, d payout.Draft, op payout.Operation, may func(chain.ID) error,
) error {
	if err := may(d.Chain); err != nil {
		return err
	}
	var previous, now *time.Time
	var open bool
	if err := tx.QueryRow(ctx, `
		SELECT (SELECT max(requested_at) FROM payout WHERE provider_id = $1 AND chain_id = $2), clock_timestamp(),
			EXISTS (SELECT FROM payout WHERE provider_id = $1 AND state IN ('requested', 'approved', 'signing', 'submitted'))`,
		d.ProviderID, d.Chain).Scan(&previous, &now, &open); err != nil {
		return err
	}
	if open {
		return pending()
	}
	if previous != nil {
		if wait := previous.Add(payout.Every).Sub(*now); wait > 0 {
			return tooFrequent(wait)
		}
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO payout (payout_id, provider_id, chain_id, gross_nano_usd, fee_nano_usd, address, previous_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, d.ID, d.ProviderID, d.Chain, d.Gross, d.Fee, d.Address[:],
		previous); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO payout_change (payout_id, revision, from_state, to_state, cause, actor, reason)
		VALUES ($1, 1, '', 'requested', 'request', $2, '')`, d.ID, op.Actor); err != nil {
		return err
	}
	return insertOperation(ctx, tx, operationPayout, op, d.ID)
}

func pending() error {
	return fault.New(fault.Conflict, fault.PayoutPending, "the provider has a payout that has not ended")
}

func tooFrequent(wait time.Duration) error {
	return fault.New(fault.Conflict, fault.PayoutTooFrequent, "there is one payout an hour").After(wait)
}

const conversionColumns = `conversion_id, provider_id, account_id, nano_usd, requested_at, entry_id,
	coalesce(refusal, ''), tries, due_at`

func scanConversion(row pgx.CollectableRow) (payout.Conversion, error) {
	var c payout.Conversion
	err := row.Scan(&c.ID, &c.ProviderID, &c.Account, &c.Amount, &c.RequestedAt, &c.Entry, &c.Refusal,
		&c.Tries, &c.DueAt)
	return c, err
}

func oneConversion(ctx context.Context, db querier, id payout.ID) (payout.Conversion, error) {
	rows, err := db.Query(ctx, `SELECT `+conversionColumns+` FROM conversion WHERE conversion_id = $1`, id)
	if err != nil {
		return payout.Conversion{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanConversion)
}

// KnownConversion implements payout.Store.
func (s Payouts) KnownConversion(ctx context.Context, op payout.Operation) (payout.Conversion, bool, error) {
	id, ok, err := operationOf(ctx, s.pool, operationConvert, op)
	if err != nil || !ok {
		return payout.Conversion{}, false, err
	}
	c, err := oneConversion(ctx, s.pool, id)
	if err != nil {
		return payout.Conversion{}, false, fmt.Errorf("read a conversion: %w", err)
	}
	return c, true, nil
}

// InsertConversion implements payout.Store.
func (s Payouts) InsertConversion(
	ctx context.Context, c payout.Conversion, op payout.Operation,
) (out payout.Conversion, err error) {
	err = s.inPayoutTx(ctx, "insert a conversion", func(tx pgx.Tx) error {
		if _, err := LockProvider(ctx, tx, c.ProviderID); err != nil {
			return err
		}
		id, known, err := operationOf(ctx, tx, operationConvert, op)
		if err != nil {
			return err
		}
		if !known {
			id = c.ID
			if _, err := tx.Exec(ctx, `INSERT INTO conversion (conversion_id, provider_id, account_id, nano_usd)
				VALUES ($1, $2, $3, $4)`, c.ID, c.ProviderID, c.Account, c.Amount); err != nil {
				return err
			}
			if err := insertOperation(ctx, tx, operationConvert, op, c.ID); err != nil {
				return err
			}
		}
		out, err = oneConversion(ctx, tx, id)
		return err
	})
	switch {
	case pg.IsCheck(err, "conversion_hour"):
		return payout.Conversion{}, payout.TooManyConversions()
	case err != nil:
		return payout.Conversion{}, err
	}
	return out, nil
}

// Conversions implements payout.Store.
func (s Payouts) Conversions(ctx context.Context, limit int) ([]payout.Conversion, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+conversionColumns+` FROM conversion
		WHERE entry_id IS NULL AND refusal IS NULL AND due_at <= (SELECT clock_timestamp()) ORDER BY due_at LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list open conversions: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanConversion)
	if err != nil {
		return nil, fmt.Errorf("list open conversions: %w", err)
	}
	return list, nil
}

// DelayConversion implements payout.Store.
func (s Payouts) DelayConversion(ctx context.Context, c payout.Conversion, pause time.Duration) error {
	if _, err := s.pool.Exec(ctx, `UPDATE conversion SET tries = tries + 1, due_at = clock_timestamp() + $3::interval
		WHERE conversion_id = $1 AND tries = $2 AND entry_id IS NULL AND refusal IS NULL`, c.ID, c.Tries,
		pause); err != nil {
		return fmt.Errorf("let a conversion wait: %w", err)
	}
	return nil
}

// EndConversion implements payout.Store. The first end stays.
func (s Payouts) EndConversion(ctx context.Context, c payout.Conversion) (out payout.Conversion, err error) {
	err = s.inPayoutTx(ctx, "end a conversion", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE conversion SET entry_id = $2, refusal = $3
			WHERE conversion_id = $1 AND entry_id IS NULL AND refusal IS NULL`, c.ID, c.Entry,
			textOrNull(c.Refusal)); err != nil {
			return err
		}
		out, err = oneConversion(ctx, tx, c.ID)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return payout.Conversion{}, payoutMissing()
	}
	return out, err
}
