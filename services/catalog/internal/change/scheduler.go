package change

import (
	"context"
	"io"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/catalog/internal/entry"
)

// Interval is the pause between two looks for changes that are due, and so the most by which a
// change is late while a catalog runs, beside the transaction that applies it.
const Interval = time.Second

// Store keeps the changes. Each method is one transaction, and no two of them, nor an entry.Store's
// Put, run at once. A decide may be called more than once.
type Store interface {
	// Schedule adds the change that decide returns for the model and the change of it that waits,
	// which are nil where there is none; it adds nothing where that is the waiting one. The database
	// must take next, the model that comes of the change. Its faults are those of Put, and
	// too_many_changes.
	Schedule(ctx context.Context, modelID string,
		decide func(current *entry.Model, waiting *Change) (c Change, next entry.Model, err error)) (Change, error)
	// Cancel makes the change what decide returns. It fails with change_not_found.
	Cancel(ctx context.Context, modelID string, id ids.ChangeID, decide func(Change) (Change, error)) (Change, error)
	// Due names the changes that wait for now or an earlier moment, the earliest first.
	Due(ctx context.Context, now time.Time, limit int) ([]ids.ChangeID, error)
	// Apply makes a change that waits what decide returns, and its model the next one where the
	// change is applied. Where the database does not take the model, the change is refused at now.
	// A change that does not wait any more stays as it is.
	Apply(ctx context.Context, id ids.ChangeID, now time.Time,
		decide func(c Change, current *entry.Model) (done Change, next entry.Model, err error)) (Change, error)
	// Changes lists those of a model, the newest first. It fails with model_not_found.
	Changes(ctx context.Context, modelID string, limit int) ([]Change, error)
}

// Scheduler keeps changes for their moments, and applies them.
type Scheduler struct {
	Store  Store
	Clock  clock.Clock
	Random io.Reader
	Log    *slog.Logger
	// Still leaves out looks that find nothing. It may be nil.
	Still *clock.Still

	// undecided are the changes that could not be decided when they were looked at last.
	undecided map[ids.ChangeID]bool
}

// Schedule has d and rates take the place of a model from a moment on. A second call with the same
// arguments returns the change that waits.
func (s *Scheduler) Schedule(ctx context.Context, d entry.Draft, rates money.Rates, from time.Time) (Change, error) {
	if _, err := d.Normalize(); err != nil {
		return Change{}, err
	}
	now := s.Clock.Now().UTC().Truncate(time.Microsecond)
	id, err := ids.NewChange(now, s.Random)
	if err != nil {
		return Change{}, err
	}
	version, err := ids.NewPriceVersion(now, s.Random)
	if err != nil {
		return Change{}, err
	}
	asked := Change{ID: id, State: Scheduled, From: from.UTC().Truncate(time.Microsecond), Draft: d, Rates: rates,
		ScheduledAt: now}
	return s.Store.Schedule(ctx, d.ID, func(current *entry.Model, waiting *Change) (Change, entry.Model, error) {
		return asked.await(current, waiting, version)
	})
}

// await completes a change that an operator asks for, and returns it with the model that comes of it.
func (c Change) await(current *entry.Model, waiting *Change, version ids.PriceVersionID) (Change, entry.Model, error) {
	next, err := c.on(current, c.From, version)
	if err != nil {
		return Change{}, entry.Model{}, err
	}
	c.Draft, c.Base = next.Draft, *current
	switch {
	case waiting != nil && c.same(*waiting):
		return *waiting, next, nil
	case waiting != nil:
		return Change{}, entry.Model{}, fault.New(fault.Conflict, fault.AlreadyExists,
			"another change of the model waits for %s; cancel it first", waiting.From.UTC().Format(time.RFC3339))
	case c.From.Before(c.ScheduledAt.Add(MinAhead)) || c.From.After(c.ScheduledAt.Add(MaxAhead)):
		return Change{}, entry.Model{}, fault.New(fault.Invalid, fault.InvalidValue,
			"effective_from must be at least a minute and at most %d days ahead", MaxAhead/(24*time.Hour)).On("effective_from")
	case next.Same(*current):
		return Change{}, entry.Model{}, fault.New(fault.Invalid, fault.InvalidValue,
			"entry is what the model is already").On("entry")
	}
	return c, next, nil
}

// Cancel withdraws a change that waits. It fails with change_not_found, and with
// transition_not_allowed where the change was applied or refused.
func (s *Scheduler) Cancel(ctx context.Context, modelID string, id ids.ChangeID) (Change, error) {
	if !entry.IsID(modelID) {
		return Change{}, fault.New(fault.NotFound, fault.ChangeNotFound, "the model has no such change").On("change_id")
	}
	now := s.Clock.Now()
	return s.Store.Cancel(ctx, modelID, id, func(c Change) (Change, error) { return c.Cancel(now) })
}

// List returns the changes of a model, the newest first, at most MaxListed. It fails with
// model_not_found.
func (s *Scheduler) List(ctx context.Context, modelID string) ([]Change, error) {
	if !entry.IsID(modelID) {
		return nil, fault.New(fault.NotFound, fault.ModelNotFound, "the model does not exist").On("model_id")
	}
	return s.Store.Changes(ctx, modelID, MaxListed)
}

// Run applies changes when they are due, until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	failing := s.look(ctx, false)
	for range clock.EveryUnless(ctx, Interval, s.Still) {
		failing = s.look(ctx, failing)
	}
}

// look applies what is due. It logs once that changes cannot be read, and reports whether that failed.
func (s *Scheduler) look(ctx context.Context, failing bool) bool {
	err := s.Still.Learn(s.ApplyDue(ctx))
	if ctx.Err() != nil {
		return failing
	}
	if err != nil && !failing {
		s.Log.WarnContext(ctx, "scheduled changes cannot be read; they are applied when they can", "error", err)
	}
	return err != nil
}

// ApplyDue applies or refuses each change that is due. A change that cannot be decided now is logged
// once and stays due; the others are not held up by it. It fails where it cannot find out what is due. It is
// for one goroutine at a time.
func (s *Scheduler) ApplyDue(ctx context.Context) error {
	due, err := s.Store.Due(ctx, s.Clock.Now(), MaxWaiting)
	if err != nil {
		return err
	}
	undecided := map[ids.ChangeID]bool{}
	defer func() { s.undecided = undecided }()
	for _, id := range due {
		c, err := s.apply(ctx, id)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if undecided[id] = true; !s.undecided[id] {
				s.Log.ErrorContext(ctx, "a scheduled change could not be decided; it is tried again", "change_id", id.String(),
					"error", err)
			}
		case c.State == Refused:
			s.Log.WarnContext(ctx, "a scheduled change was refused", "model_id", c.Draft.ID, "change_id", id.String(),
				"reason", c.Reason)
		}
	}
	return nil
}

func (s *Scheduler) apply(ctx context.Context, id ids.ChangeID) (Change, error) {
	now := s.Clock.Now().UTC().Truncate(time.Microsecond)
	version, err := ids.NewPriceVersion(now, s.Random)
	if err != nil {
		return Change{}, err
	}
	return s.Store.Apply(ctx, id, now, func(c Change, current *entry.Model) (Change, entry.Model, error) {
		return c.Decide(current, now, version)
	})
}
