package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
)

// Cursor implements position.Store.
func (s Positions) Cursor(ctx context.Context, on chain.ID) (number int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT number FROM position_cursor WHERE chain_id = $1`, on).Scan(&number)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("read how far positions follow chain %s: %w", on, err)
	}
	return number, nil
}

// Apply implements position.Store. The row of the cursor is its lock, so positions do not move meanwhile.
func (s Positions) Apply(
	ctx context.Context, on chain.ID, batch position.Batch,
) (out position.Applied, err error) {
	rules, ok := s.Terms.Of(on)
	if !ok {
		return out, fmt.Errorf("chain %s takes no collateral", on)
	}
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		out = position.Applied{}
		number, err := lockCursor(ctx, tx, on)
		if err != nil {
			return err
		}
		if waits, err := readAgain(ctx, tx, on); err != nil || waits {
			return err
		}
		if err := s.count(ctx, tx, rules, counting{number, batch.Events}, &out); err != nil {
			return err
		}
		if out.More {
			batch.Final = time.Time{}
		}
		_, err = tx.Exec(ctx, `UPDATE position_cursor SET number = greatest(number, $2), final_at = greatest(final_at, $3)
			WHERE chain_id = $1 AND (number < $2 OR $3 > coalesce(final_at, '-infinity'))`, on, batch.UpTo,
			nullTime{batch.Final})
		if err != nil {
			return err
		}
		crash.At("settlement.position.before_commit")
		return nil
	})
	return out, err
}

// counting are events behind the number of a cursor.
type counting struct {
	behind int64
	events []position.Event
}

// count has events count, after the positions that are to be made anew. Their events are not counted twice.
func (s Positions) count(
	ctx context.Context, tx pgx.Tx, rules position.Rules, c counting, out *position.Applied,
) error {
	events, err := uncounted(ctx, tx, rules.Chain, c.events)
	if err != nil {
		return err
	}
	gone, err := vanished(ctx, tx, rules.Chain)
	if err != nil {
		return err
	}
	now, err := readPositions(ctx, tx, rules.Chain, append(keysOf(events), gone...))
	if err != nil {
		return err
	}
	anew, err := madeAnew(ctx, tx, rules.Chain, gone, now, events)
	if err != nil {
		return err
	}
	var steps []step
	for _, key := range sortedKeys(anew) {
		more, err := s.restate(ctx, tx, rules, c.behind, now[key], anew[key])
		if err != nil {
			return err
		}
		steps = append(steps, more...)
		out.Restated = append(out.Restated, position.Restatement{Was: now[key], Is: steps[len(steps)-1].after,
			Cause: anew[key]})
	}
	events = slices.DeleteFunc(events, func(e position.Event) bool {
		_, ok := anew[positionKey{e.Subject, e.Depositor}]
		return ok
	})
	more, err := stepsOf(rules, now, events)
	if err != nil {
		return err
	}
	steps, out.More = append(steps, more...), len(gone) == position.MaxGone
	for _, step := range steps {
		if step.cause == nil {
			out.Events++
		}
	}
	if len(steps) > 0 {
		out.Foreign, err = s.write(ctx, tx, steps)
	}
	return err
}

func lockCursor(ctx context.Context, tx pgx.Tx, on chain.ID) (number int64, err error) {
	for _, sql := range []string{durably, `INSERT INTO position_cursor (chain_id) VALUES ($1) ON CONFLICT DO NOTHING`} {
		var args []any
		if sql != durably {
			args = []any{on}
		}
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return 0, err
		}
	}
	err = tx.QueryRow(ctx, `SELECT number FROM position_cursor WHERE chain_id = $1 FOR UPDATE`, on).Scan(&number)
	return number, err
}

// Unposted implements position.Store. The first of each provider come before the second of any, so that a provider whom
// the books refuse keeps no other one waiting.
func (s Positions) Unposted(ctx context.Context, on chain.ID, limit int) ([]position.Movement, error) {
	rows, err := s.pool.Query(ctx, `SELECT chain_id, number, tx, place, provider_id, units FROM position_event
		WHERE chain_id = $1 AND units <> 0 AND entry_id IS NULL
		ORDER BY row_number() OVER (PARTITION BY provider_id ORDER BY number), number LIMIT $2`, on, limit)
	if err != nil {
		return nil, fmt.Errorf("read what the books were not told: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m position.Movement, err error) {
		var tx []byte
		err = row.Scan(&m.Chain, &m.Number, &tx, &m.Place, &m.Provider, &m.Units)
		copy(m.Tx[:], tx)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what the books were not told: %w", err)
	}
	return list, nil
}

// Posted implements position.Store.
func (s Positions) Posted(ctx context.Context, m position.Movement, entry ids.EntryID) error {
	if _, err := s.pool.Exec(ctx, `UPDATE position_event SET entry_id = $3
		WHERE chain_id = $1 AND number = $2 AND entry_id IS NULL`, m.Chain, m.Number, entry); err != nil {
		return fmt.Errorf("record what the books were told: %w", err)
	}
	return nil
}
