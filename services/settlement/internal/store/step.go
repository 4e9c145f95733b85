package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/position"
)

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
	// partial reports whether the position moves with a later step, which restates it. again reports whether the event
	// counted before it was gone.
	partial, again bool
	// cause is that of a step that restates the position.
	cause *position.Cause
}

// stepsOf computes what events make of positions.
func stepsOf(
	rules position.Rules, now map[positionKey]position.Position, events []position.Event,
) ([]step, error) {
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
		steps[i] = newStep(e, was, after)
		now[key] = steps[i].after
	}
	return steps, nil
}

func newStep(e position.Event, was, after position.Position) step {
	s := step{event: e, matters: was.Counted || after.Counted}
	if id, ok := contract.Provider(e.Subject); ok {
		s.provider = &id
	} else {
		after.Booked = 0 // the books have providers alone
	}
	s.units, s.after = after.Booked-was.Booked, after
	return s
}

// readPositions reads positions.
func readPositions(
	ctx context.Context, tx pgx.Tx, on chain.ID, keys []positionKey,
) (map[positionKey]position.Position, error) {
	subjects, depositors := make([][]byte, len(keys)), make([][]byte, len(keys))
	for i := range keys {
		subjects[i], depositors[i] = keys[i].subject[:], keys[i].depositor[:]
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
	var number int64
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(number), 0) FROM position_event WHERE chain_id = $1`,
		steps[0].event.Chain).Scan(&number); err != nil {
		return nil, err
	}
	batch := &pgx.Batch{}
	for _, step := range steps {
		number++
		queueStep(batch, number, step)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("write %d events: %w", len(steps), err)
	}
	for _, step := range steps {
		if step.event.Penalty == (contract.Word{}) {
			continue
		}
		ours, err := movePart(ctx, tx, step.event, step.again)
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

func queueStep(batch *pgx.Batch, number int64, s step) {
	e, p := s.event, s.after
	var part []byte
	if e.Penalty != (contract.Word{}) {
		part = e.Penalty[:]
	}
	var event *int64
	if s.cause == nil {
		event = &e.Number
	}
	batch.Queue(`INSERT INTO position_event (chain_id, number, event, tx, place, kind, subject, depositor, provider_id,
			part_id, amount, at, free_after, escrow_after, units, cause)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, coalesce($12, clock_timestamp()), $13, $14, $15, $16)`,
		e.Chain, number, event, e.Tx[:], e.Place, e.Kind, e.Subject[:], e.Depositor[:], s.provider, part, e.Amount,
		nullTime{e.At}, p.Free, p.Escrow, s.units, s.cause)
	if s.partial {
		return
	}
	batch.Queue(`INSERT INTO position (chain_id, subject, depositor, provider_id, free, escrow, refund_at, exit_at, booked,
			counted, number, block, log_index)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (chain_id, subject, depositor) DO UPDATE SET free = excluded.free, escrow = excluded.escrow,
			refund_at = excluded.refund_at, exit_at = excluded.exit_at, booked = excluded.booked,
			counted = excluded.counted, number = excluded.number, block = excluded.block, log_index = excluded.log_index`,
		p.Chain, p.Subject[:], p.Depositor[:], s.provider, p.Free, p.Escrow, nullTime{p.RefundAt}, nullTime{p.ExitAt},
		p.Booked, p.Counted, number, p.Last.Block, p.Last.Index)
}
