package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/idempotency"
)

// keepAnswer ends a claim with its answer, or without it if the quota leaves no room.
//
// Kept answers are in a schema of their own, kept, apart from the ledger: a ring of 26
// slots, one for each hour, made once. Nothing is created or dropped at run time, and no
// row is deleted. A slot is emptied whole, together with its counts, when its last answer
// is a day old: every 15 s by whichever replica comes first (every 60 s while nobody writes), and
// otherwise by the next answer. A slot that somebody reads for long, as pg_dump does, is not waited for. If it
// is still being read when its hour comes, answers of that hour are not kept. A dump may
// leave the answers out (--exclude-table-data='kept.*'); repeats of their requests are
// refused after a restore.
//
// Each account may have 64 MiB, and all accounts together SVC_BILLING_KEPT_BYTES (16 GiB
// by default); each row counts 256 bytes more than its answer. Accounts that never paid
// have half of the whole together, because accounts are free and 256 of them would
// otherwise take all of it. An account has paid when it has had a deposit by card or on a
// chain that was not undone (the view paid_deposit); a grant is none. What was kept
// before an account paid counts as unpaid until its hour is over.
//
// All transactions that keep an answer wait for one lock. So the lock is taken in the
// last round trip of the transaction, which the server ends by itself even if this
// process stands still. It is not taken at all for an answer that has no room anyway.
func (s *Store) keepAnswer(
	ctx context.Context, e idempotency.End, quota idempotency.Quota,
) (outcome idempotency.Outcome, err error) {
	var refusal *string
	err = s.pool.QueryRow(ctx, `SELECT kept.refusal((SELECT account_id FROM consumer_key WHERE id = $1), $2, $3, $4)`,
		[16]byte(e.Key), int64(len(e.Sealed))+idempotency.KeptRow, quota.OfAccount, quota.InAll).Scan(&refusal)
	if err != nil {
		return idempotency.NoEnd, fmt.Errorf("look for room for an answer: %w", err)
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

// endAnswered keeps the answer of a claim that its request still holds.
const endAnswered = `WITH running AS (
	SELECT c.key_id, c.token_sha256, k.account_id FROM idempotency_claim c JOIN consumer_key k ON k.id = c.key_id
	WHERE c.key_id = $1 AND c.token_sha256 = $2 AND c.request_id = $3 AND c.state = 'running'
		AND c.expires_at > clock_timestamp()
), kept AS MATERIALIZED (
	SELECT r.key_id, r.token_sha256, k.o_slot, k.o_refusal
	FROM running r CROSS JOIN LATERAL kept.keep(r.account_id, $3, $4, $5, $6) AS k
)
UPDATE idempotency_claim c SET state = CASE WHEN k.o_slot IS NULL THEN 'not_kept' ELSE 'answered' END,
	kept_slot = k.o_slot
FROM kept k WHERE c.key_id = k.key_id AND c.token_sha256 = k.token_sha256
RETURNING coalesce(k.o_refusal, 'kept')`

// withKept completes an answer with its sealed text from a slot. An answer that is not
// there is idempotency.Gone.
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
		return idempotency.Answer{}, fmt.Errorf("read a kept answer: %w", err)
	}
	return a, nil
}

// SweepKept empties the slots of kept answers that are over, and returns their number.
func (s *Store) SweepKept(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	var swept int
	if err := s.pool.QueryRow(ctx, `SELECT kept.sweep()`).Scan(&swept); err != nil {
		return 0, fmt.Errorf("empty the slots of kept answers: %w", err)
	}
	return swept, nil
}
