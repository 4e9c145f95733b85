package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/catalog/internal/change"
	"svc.internal/services/catalog/internal/entry"
)

// checkNow looks at the constraints that are otherwise looked at when the transaction ends.
const checkNow = `SET CONSTRAINTS ALL IMMEDIATE`

// Schedule implements change.Store.
func (s *Store) Schedule(
	ctx context.Context, modelID string,
	decide func(current *entry.Model, waiting *change.Change) (change.Change, entry.Model, error),
) (change.Change, error) {
	var c change.Change
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		current, err := lockModel(ctx, tx, modelID)
		if err != nil {
			return err
		}
		waiting, err := readWaiting(ctx, tx, modelID)
		if err != nil {
			return err
		}
		var next entry.Model
		if c, next, err = decide(current, waiting); err != nil || waiting != nil && waiting.ID == c.ID {
			return err
		}
		if err := try(ctx, tx, current, next); err != nil {
			return err
		}
		c.ScheduledBy = actor.OfOperator(ctx)
		if err := writeChange(ctx, tx, c); err != nil {
			return err
		}
		return auditChange(ctx, tx, scheduleChange, c)
	})
	if err != nil {
		return change.Change{}, mendable(err)
	}
	return c, nil
}

// try writes a model as it would be written, has the database look at all of its constraints, and
// takes everything back.
func try(ctx context.Context, tx pgx.Tx, current *entry.Model, next entry.Model) error {
	trial, err := tx.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin a trial: %w", err)
	}
	if err := writeChecked(ctx, trial, current, next); err != nil {
		return err
	}
	if err := trial.Rollback(ctx); err != nil {
		return fmt.Errorf("take a trial back: %w", err)
	}
	return nil
}

func writeChecked(ctx context.Context, tx pgx.Tx, current *entry.Model, next entry.Model) error {
	if err := writeDraft(ctx, tx, current, next); err != nil {
		return err
	}
	if err := writePrice(ctx, tx, current, next); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, checkNow); err != nil {
		return fmt.Errorf("check the model: %w", err)
	}
	return nil
}

// Cancel implements change.Store.
func (s *Store) Cancel(
	ctx context.Context, modelID string, id ids.ChangeID, decide func(change.Change) (change.Change, error),
) (change.Change, error) {
	var done change.Change
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := lockModel(ctx, tx, modelID); err != nil {
			return err
		}
		c, err := readChange(ctx, tx, ` WHERE c.model_id = $1 AND c.change_id = $2`, modelID, [16]byte(id))
		if err != nil {
			return err
		}
		if c == nil {
			return fault.New(fault.NotFound, fault.ChangeNotFound, "the model has no such change").On("change_id")
		}
		if done, err = decide(*c); err != nil || done.State == c.State {
			return err
		}
		done.EndedBy = actor.OfOperator(ctx)
		if err := writeEnd(ctx, tx, done); err != nil {
			return err
		}
		return auditChange(ctx, tx, cancelChange, done)
	})
	return done, err
}

// ChangeDue is for the loop that looks for changes that are due; see pg.Lull.Until.
func (s *Store) ChangeDue() *clock.Still {
	return s.lull.Until(`SELECT min(effective_from) FROM model_change WHERE state = 'scheduled'`)
}

// Due implements change.Store.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]ids.ChangeID, error) {
	rows, err := s.pool.Query(ctx, `SELECT change_id FROM model_change WHERE state = 'scheduled' AND effective_from <= $1
		ORDER BY effective_from, change_id LIMIT $2`, now, limit)
	if err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ids.ChangeID, error) {
		var id [16]byte
		err := row.Scan(&id)
		return id, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	return due, nil
}

// Apply implements change.Store.
func (s *Store) Apply(
	ctx context.Context, id ids.ChangeID, now time.Time,
	decide func(c change.Change, current *entry.Model) (change.Change, entry.Model, error),
) (change.Change, error) {
	var done change.Change
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockChanges); err != nil {
			return fmt.Errorf("wait for other changes: %w", err)
		}
		c, err := readChange(ctx, tx, ` WHERE c.change_id = $1`, [16]byte(id))
		if err != nil {
			return err
		}
		if c == nil {
			return fault.New(fault.NotFound, fault.ChangeNotFound, "there is no such change")
		}
		if done = *c; !c.Waiting() {
			return nil // another replica was faster, or an operator
		}
		current, err := readModel(ctx, tx, c.Draft.ID)
		if err != nil {
			return err
		}
		var next entry.Model
		if done, next, err = decide(*c, current); err != nil {
			return err
		}
		if done.State == change.Applied {
			if done, err = put(ctx, tx, *c, done, current, next, now); err != nil {
				return err
			}
		}
		if err := writeEnd(ctx, tx, done); err != nil {
			return err
		}
		return auditEnd(ctx, tx, done)
	})
	return done, err
}

// put writes the model of a change. It returns done, or waiting as it is refused where the database
// does not take the model.
func put(
	ctx context.Context, tx pgx.Tx, waiting, done change.Change, current *entry.Model, next entry.Model, now time.Time,
) (change.Change, error) {
	part, err := tx.Begin(ctx)
	if err != nil {
		return change.Change{}, fmt.Errorf("begin to put a model: %w", err)
	}
	err = writeChecked(ctx, part, current, next)
	if err == nil {
		if err := part.Commit(ctx); err != nil {
			return change.Change{}, fmt.Errorf("put a model: %w", err)
		}
		return done, nil
	}
	var refusal *fault.Fault
	switch known := mendable(err); {
	case errors.As(known, &refusal):
	case pg.IsIntegrity(err):
		refusal = fault.Wrap(err, fault.Invalid, fault.InvalidValue, "the database does not take the entry any more")
	default:
		return change.Change{}, err
	}
	if err := part.Rollback(ctx); err != nil {
		return change.Change{}, fmt.Errorf("take a model back: %w", err)
	}
	return waiting.Refuse(refusal, now)
}

// Changes implements change.Store.
func (s *Store) Changes(ctx context.Context, modelID string, limit int) ([]change.Change, error) {
	var list []change.Change
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		current, err := readModel(ctx, tx, modelID)
		if err != nil {
			return err
		}
		if current == nil {
			return fault.New(fault.NotFound, fault.ModelNotFound, "the model does not exist").On("model_id")
		}
		rows, err := tx.Query(ctx, selectChanges+` WHERE c.model_id = $1 ORDER BY c.change_id DESC LIMIT $2`, modelID, limit)
		if err != nil {
			return fmt.Errorf("read scheduled changes: %w", err)
		}
		if list, err = pgx.CollectRows(rows, scanChange); err != nil {
			return fmt.Errorf("read scheduled changes: %w", err)
		}
		return nil
	})
	return list, err
}
