package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/idempotency"
)

// keepAnswer ends a claim with its answer, or without one if the quota leaves no
// room.
//
// All who keep an answer wait for one lock. So it is taken in the last round trip
// of the transaction, which the server ends by itself even if this process stands
// still, and not at all for an answer that has no room as it is.
func (s *Store) keepAnswer(
	ctx context.Context, e idempotency.End, quota idempotency.Quota,
) (outcome idempotency.Outcome, err error) {
	var refusal *string
	err = s.pool.QueryRow(ctx, `SELECT kept.refusal((SELECT account_id FROM consumer_key WHERE id = $1), $2, $3, $4)`,
		[16]byte(e.Key), int64(len(e.Sealed))+idempotency.KeptRow, quota.OfAccount, quota.InAll).Scan(&refusal)
	if err != nil {
		return idempotency.NoEnd, reachable(fmt.Errorf("look for room for an answer: %w", err))
	}
	if refusal != nil {
		e.State, e.Sealed = idempotency.NotKept, nil
		if outcome, err = s.FinishKey(ctx, e, quota); outcome == idempotency.NotOffered {
			outcome = idempotency.Outcome(*refusal)
		}
		return outcome, err
	}
	err = s.atOnce(ctx, func(batch *pgx.Batch) {
		outcome = idempotency.NoEnd
		batch.Queue(`SELECT FROM idempotency_quota WHERE key_id = $1 FOR UPDATE`, [16]byte(e.Key))
		batch.Queue(endAnswered, [16]byte(e.Key), e.Token[:], [16]byte(e.Request), e.Sealed, quota.OfAccount,
			quota.InAll).Query(func(rows pgx.Rows) error {
			ends, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if len(ends) == 1 {
				outcome = idempotency.Outcome(ends[0])
			}
			return err
		})
	})
	if err != nil {
		return idempotency.NoEnd, fmt.Errorf("keep an answer: %w", err)
	}
	return outcome, nil
}

// endAnswered keeps the answer of a claim that its request still has.
const endAnswered = `WITH running AS (
	SELECT c.key_id, c.token_sha256, k.account_id FROM idempotency_claim c JOIN consumer_key k ON k.id = c.key_id
	WHERE c.key_id = $1 AND c.token_sha256 = $2 AND c.request_id = $3 AND c.state = 'running' AND c.expires_at > clock_timestamp()
), kept AS MATERIALIZED (
	SELECT r.key_id, r.token_sha256, k.o_slot, k.o_refusal
	FROM running r CROSS JOIN LATERAL kept.keep(r.account_id, $3, $4, $5, $6) AS k
)
UPDATE idempotency_claim c SET state = CASE WHEN k.o_slot IS NULL THEN 'not_kept' ELSE 'answered' END, kept_slot = k.o_slot
FROM kept k WHERE c.key_id = k.key_id AND c.token_sha256 = k.token_sha256
RETURNING coalesce(k.o_refusal, 'kept')`

// withKept completes an answer with what is kept of it in a slot. An answer that
// is not there is gone.
func (s *Store) withKept(ctx context.Context, a idempotency.Answer, slot *int16) (idempotency.Answer, error) {
	if a.Standing != idempotency.Replay || slot == nil {
		return a, nil
	}
	err := s.pool.QueryRow(ctx, `SELECT sealed FROM kept.answer WHERE slot = $1 AND request_id = $2`, *slot,
		[16]byte(a.Request)).Scan(&a.Sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		a.Standing = idempotency.Gone
		return a, nil
	}
	if err != nil {
		return idempotency.Answer{}, reachable(fmt.Errorf("read a kept answer: %w", err))
	}
	return a, nil
}

// SweepKept empties the hours of kept answers that are over, and returns how
// many.
func (s *Store) SweepKept(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	var swept int
	if err := s.pool.QueryRow(ctx, `SELECT kept.sweep()`).Scan(&swept); err != nil {
		return 0, reachable(fmt.Errorf("empty the hours of kept answers: %w", err))
	}
	return swept, nil
}
