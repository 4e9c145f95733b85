package passbook

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
)

// Mark is a moment, with the transactions that ran when it was made. Once they have ended,
// nothing more is recorded before the moment.
type Mark struct {
	At time.Time
	// Running names the transactions.
	Running []string
}

// Progress is what one step did.
type Progress struct {
	// Lines is how many lines were made, Documents how many documents.
	Lines, Documents int
	// More reports that another step can follow at once.
	More bool
}

// FoldStore makes the lines. Steps of several replicas do not meet: one finds the place
// taken, does nothing, and reports no more.
type FoldStore interface {
	// Due reports whether something was recorded that is not folded, or the fold has stood for IdleInterval.
	Due(ctx context.Context) (bool, error)
	// Mark makes a mark, lag before the database's time.
	Mark(ctx context.Context, lag time.Duration) (Mark, error)
	// Passed reports whether the transactions of a mark have ended.
	Passed(ctx context.Context, m Mark) (bool, error)
	// Fold takes one step towards a mark that has passed: up to rows of what was recorded, or
	// the documents of the end of a month.
	Fold(ctx context.Context, upTo time.Time, rows int) (Progress, error)
}

// IdleInterval is the pause between two marks of a fold while nothing is recorded. What people see of an idle
// service is up to that much older.
const IdleInterval = 15 * time.Second

// The Folder's numbers. foldSteps bounds the steps of one look, so that a long history is
// made in many looks.
const (
	foldRows  = 5_000
	foldSteps = 200
)

// Folder makes lines, sums and documents of what was recorded. Several may run on one store.
type Folder struct {
	Store FoldStore
	// Name says in the log what is folded.
	Name string
	// Interval is the pause between two looks. Lag is how far a mark lies before the
	// database's time: a transaction takes its time a moment before others can see it.
	Interval, Lag time.Duration
	Log           *slog.Logger
	// Still leaves out looks at which no mark waits and nothing is due.
	Still *clock.Still

	mark *Mark
}

// Run looks at every interval until ctx ends. A failure is logged, and the next look tries
// again.
func (f *Folder) Run(ctx context.Context) {
	for range clock.Every(ctx, f.Interval) {
		if f.mark == nil && f.Still.Holds(ctx) {
			continue
		}
		if err := f.Still.Learn(f.Look(ctx)); err != nil && ctx.Err() == nil {
			f.Log.ErrorContext(ctx, "a fold could not be brought up to date", "fold", f.Name, "error", err)
		}
	}
}

// Look folds up to the last mark, if its transactions have ended, and makes the next mark, if
// there is something to fold. An idle service asks for that alone.
func (f *Folder) Look(ctx context.Context) error {
	if f.mark != nil {
		passed, err := f.Store.Passed(ctx, *f.mark)
		if err != nil {
			return fmt.Errorf("look for transactions under way: %w", err)
		}
		if !passed {
			return nil
		}
		if err := f.fold(ctx, f.mark.At); err != nil {
			return err
		}
		f.mark = nil
	}
	due, err := f.Store.Due(ctx)
	if err != nil {
		return fmt.Errorf("look for what is not folded: %w", err)
	}
	if !due {
		return nil
	}
	mark, err := f.Store.Mark(ctx, f.Lag)
	if err != nil {
		return fmt.Errorf("mark a moment: %w", err)
	}
	f.mark = &mark
	return nil
}

func (f *Folder) fold(ctx context.Context, upTo time.Time) error {
	for range foldSteps {
		p, err := f.Store.Fold(ctx, upTo, foldRows)
		if err != nil {
			return fmt.Errorf("fold up to %s: %w", upTo.Format(time.RFC3339Nano), err)
		}
		if !p.More {
			return nil
		}
	}
	return nil
}
