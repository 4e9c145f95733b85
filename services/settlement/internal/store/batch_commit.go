package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/chain"
)

// participants are the providers of the day $1, in the order of their ids, with what makes their shares. $2 is the
// day's end.
const participants = `
SELECT p.provider_id, e.earned, g.given, coalesce(l.lines, 0), coalesce(f.filled, 0), k.blocked,
	coalesce((SELECT c.chain_id FROM settlement_chain_change c WHERE c.provider_id = p.provider_id AND c.since < $2
		ORDER BY c.since DESC LIMIT 1), 8453)
FROM (SELECT DISTINCT provider_id FROM batch_account) p
CROSS JOIN LATERAL (SELECT batch_balance_at(p.provider_id, 'l:provider:accrued', '', $1)
	- batch_balance_at(p.provider_id, 'held', '', $1) + batch_balance_at(p.provider_id, 'batched', '', $1) AS earned) e
CROSS JOIN LATERAL (SELECT coalesce(sum(coalesce(s.posted, s.amount)), 0)::bigint AS given FROM batch_share s
	WHERE s.provider_id = p.provider_id AND s.day < $1) g
CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM ` + openBlocks + ` AND b.provider_id = p.provider_id) AS blocked) k
LEFT JOIN (SELECT provider_id, count(*) AS lines FROM batch_line WHERE day = $1 GROUP BY provider_id) l
	ON l.provider_id = p.provider_id
LEFT JOIN (SELECT provider_id, count(*) AS filled FROM batch_filled WHERE day = $1 GROUP BY provider_id) f
	ON f.provider_id = p.provider_id
WHERE l.lines > 0 OR e.earned > g.given AND NOT k.blocked
ORDER BY p.provider_id`

// Participants lists who has a share of a day; see batch.Store.
func (s Batches) Participants(ctx context.Context, day time.Time) (list []ids.ProviderID, err error) {
	// Who is blocked by this day's findings has a share too, of nothing.
	err = s.inDay(ctx, func(tx pgx.Tx) error {
		if err := mend(ctx, tx); err != nil {
			return err
		}
		all, err := readParticipants(ctx, tx, day)
		if err != nil {
			return err
		}
		list = make([]ids.ProviderID, len(all))
		for i, p := range all {
			list[i] = p.Provider
		}
		return nil
	})
	return list, err
}

func readParticipants(ctx context.Context, tx pgx.Tx, day time.Time) ([]batch.Participant, error) {
	rows, err := tx.Query(ctx, participants, day, day.AddDate(0, 0, 1))
	if err != nil {
		return nil, fmt.Errorf("list the participants of a day: %w", err)
	}
	empty := batch.NewDigest().Sum()
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p batch.Participant, err error) {
		p.CSV = empty
		var id int64
		err = row.Scan(&p.Provider, &p.Earned, &p.Given, &p.Lines, &p.Filled, &p.Blocked, &id)
		p.Chain = chain.ID(id)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the participants of a day: %w", err)
	}
	return list, nil
}

// Commit keeps the batches of a day; see batch.Store.
func (s Batches) Commit(
	ctx context.Context, day time.Time, f batch.Findings,
	assemble func(batch.Seal, []batch.Participant) ([]batch.Batch, error),
) error {
	return s.inDay(ctx, func(tx pgx.Tx) error {
		var seal []byte
		err := tx.QueryRow(ctx, `SELECT seal FROM batch_day WHERE day = $1 AND committed_at IS NULL`, day).Scan(&seal)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another process has committed it
		}
		if err != nil {
			return fmt.Errorf("read a day: %w", err)
		}
		if err := block(ctx, tx, day, f); err != nil {
			return err
		}
		if err := keepFilled(ctx, tx, day, f); err != nil {
			return err
		}
		list, err := readParticipants(ctx, tx, day)
		if err != nil {
			return err
		}
		if err := describe(ctx, tx, day, list); err != nil {
			return err
		}
		batches, err := assemble(batch.Seal(seal), list)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := keepBatch(ctx, tx, day, b); err != nil {
				return err
			}
		}
		crash.At("settlement.batch.before_commit")
		if _, err := tx.Exec(ctx, `UPDATE batch_day SET committed_at = clock_timestamp(),
			filled = (SELECT count(*) FROM batch_filled WHERE day = $1) WHERE day = $1`, day); err != nil {
			return fmt.Errorf("commit a day: %w", err)
		}
		return nil
	})
}

func keepFilled(ctx context.Context, tx pgx.Tx, day time.Time, f batch.Findings) error {
	if f.Filled == 0 {
		return nil // a line that stands is never filled in later
	}
	first, last, err := requestDays(ctx, tx, day)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO batch_filled (day, request_id, provider_id)
		SELECT l.day, l.request_id, l.provider_id `+ownLines+` AND `+alone, day, first, last); err != nil {
		return fmt.Errorf("mark filled lines: %w", err)
	}
	return nil
}

func keepBatch(ctx context.Context, tx pgx.Tx, day time.Time, b batch.Batch) error {
	if _, err := tx.Exec(ctx, `INSERT INTO batch (day, chain_id, root, total, shares) VALUES ($1, $2, $3, $4, $5)`,
		day, int64(b.Chain), b.Root[:], int64(b.Total), len(b.Shares)); err != nil {
		return fmt.Errorf("keep a batch: %w", err)
	}
	rows := pgx.CopyFromSlice(len(b.Shares), func(i int) ([]any, error) {
		s := &b.Shares[i]
		return []any{day, int64(b.Chain), int64(s.Leaf.Index), [16]byte(s.Provider), s.Leaf.Beneficiary[:],
			int64(s.Earned), int64(s.Given), s.Blocked, int64(s.Leaf.Amount), s.Lines, s.CSV[:], s.Statement,
			s.Summary[:]}, nil
	})
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"batch_share"}, []string{"day", "chain_id", "index", "provider_id",
		"beneficiary", "earned", "given", "blocked", "amount", "lines", "csv", "statement", "summary"}, rows)
	if err != nil {
		return fmt.Errorf("keep the shares of a batch: %w", err)
	}
	return nil
}
