package store

import (
	"bytes"
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
	"svc.internal/services/settlement/internal/contract"
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

// positionKey names a position of one chain.
type positionKey struct {
	subject   contract.Word
	depositor chain.Address
}

// step is an event with the position as it leaves it.
type step struct {
	event    position.Event
	provider *ids.ProviderID
	units    int64
	after    position.Position
	// matters reports whether the position is, or was, more than dust.
	matters bool
}

// Apply implements position.Store. The row of the cursor is its lock, so positions do not move meanwhile.
func (s Positions) Apply(
	ctx context.Context, on chain.ID, events []position.Event, final time.Time,
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
		events := slices.DeleteFunc(slices.Clone(events), func(e position.Event) bool { return e.Number <= number })
		if out.Events = len(events); out.Events > 0 {
			number = events[len(events)-1].Number
			steps, err := s.steps(ctx, tx, rules, events)
			if err != nil {
				return err
			}
			if out.Foreign, err = s.write(ctx, tx, steps); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `UPDATE position_cursor SET number = $2, final_at = greatest(final_at, $3)
			WHERE chain_id = $1 AND (number <> $2 OR $3 > coalesce(final_at, '-infinity'))`, on, number, nullTime{final})
		if err != nil {
			return err
		}
		crash.At("settlement.position.before_commit")
		return nil
	})
	return out, err
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

// steps computes what events make of positions.
func (s Positions) steps(
	ctx context.Context, tx pgx.Tx, rules position.Rules, events []position.Event,
) ([]step, error) {
	now, err := readPositions(ctx, tx, rules.Chain, events)
	if err != nil {
		return nil, err
	}
	steps := make([]step, len(events))
	for i, e := range events {
		key := positionKey{e.Subject, e.Depositor}
		was, ok := now[key]
		if !ok {
			was = position.Position{Chain: rules.Chain, Subject: e.Subject, Depositor: e.Depositor}
		}
		after, err := was.After(e, rules)
		if err != nil {
			return nil, err
		}
		step := step{event: e, matters: was.Counted || after.Counted}
		if id, ok := contract.Provider(e.Subject); ok {
			step.provider = &id
		} else {
			after.Booked = 0 // the books have providers alone
		}
		step.units, step.after = after.Booked-was.Booked, after
		steps[i], now[key] = step, after
	}
	return steps, nil
}

// readPositions reads the positions that events are about.
func readPositions(
	ctx context.Context, tx pgx.Tx, on chain.ID, events []position.Event,
) (map[positionKey]position.Position, error) {
	subjects, depositors := make([][]byte, len(events)), make([][]byte, len(events))
	for i := range events {
		subjects[i], depositors[i] = events[i].Subject[:], events[i].Depositor[:]
	}
	rows, err := tx.Query(ctx, `SELECT `+positionColumns+` FROM (
			SELECT DISTINCT subject, depositor FROM unnest($2::bytea[], $3::bytea[]) AS u(subject, depositor)) AS u
		JOIN position p ON p.chain_id = $1 AND p.subject = u.subject AND p.depositor = u.depositor`,
		on, subjects, depositors)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, scanPosition)
	if err != nil {
		return nil, err
	}
	found := make(map[positionKey]position.Position, len(list))
	for _, p := range list {
		found[positionKey{p.Subject, p.Depositor}] = p
	}
	return found, nil
}

// write writes events and positions, moves the parts of penalties, and assesses each provider that is concerned. The
// rows of providers are locked in one order.
func (s Positions) write(ctx context.Context, tx pgx.Tx, steps []step) (foreign []position.Event, err error) {
	var concerned []ids.ProviderID
	for _, step := range steps {
		if step.provider != nil && step.matters {
			concerned = append(concerned, *step.provider)
		}
	}
	slices.SortFunc(concerned, func(a, b ids.ProviderID) int { return bytes.Compare(a[:], b[:]) })
	concerned = slices.Compact(concerned)
	for _, id := range concerned {
		if _, err := LockProvider(ctx, tx, id); err != nil {
			return nil, err
		}
	}
	batch := &pgx.Batch{}
	for _, step := range steps {
		queueStep(batch, step)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("write %d events: %w", len(steps), err)
	}
	for _, step := range steps {
		if step.event.Penalty == (contract.Word{}) {
			continue
		}
		ours, err := movePart(ctx, tx, step.event)
		if err != nil {
			return nil, err
		}
		if !ours {
			foreign = append(foreign, step.event)
		}
	}
	for _, id := range concerned {
		if err := wakeRefund(ctx, tx, id); err != nil {
			return nil, err
		}
		if err := s.assess(ctx, tx, id); err != nil {
			return nil, err
		}
	}
	return foreign, nil
}

func queueStep(batch *pgx.Batch, s step) {
	e, p := s.event, s.after
	var part []byte
	if e.Penalty != (contract.Word{}) {
		part = e.Penalty[:]
	}
	batch.Queue(`INSERT INTO position_event (chain_id, number, tx, place, kind, subject, depositor, provider_id, part_id,
			amount, at, free_after, escrow_after, units)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		e.Chain, e.Number, e.Tx[:], e.Place, e.Kind, e.Subject[:], e.Depositor[:], s.provider, part, e.Amount, e.At,
		p.Free, p.Escrow, s.units)
	batch.Queue(`INSERT INTO position (chain_id, subject, depositor, provider_id, free, escrow, refund_at, exit_at, booked,
			counted, number)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (chain_id, subject, depositor) DO UPDATE SET free = excluded.free, escrow = excluded.escrow,
			refund_at = excluded.refund_at, exit_at = excluded.exit_at, booked = excluded.booked,
			counted = excluded.counted, number = excluded.number`,
		p.Chain, p.Subject[:], p.Depositor[:], s.provider, p.Free, p.Escrow, nullTime{p.RefundAt}, nullTime{p.ExitAt},
		p.Booked, p.Counted, e.Number)
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
