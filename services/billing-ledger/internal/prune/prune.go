// Package prune deletes what the service remembers for a time only, in batches,
// so that no transaction is long and nobody waits for one.
package prune

import (
	"context"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
)

// Step deletes up to limit rows of one kind that are over, and returns how many.
type Step struct {
	Name string
	Do   func(ctx context.Context, limit int) (int, error)
}

// Loop takes its steps again and again. What it does not get to waits for the
// next time, and counts for nobody meanwhile.
type Loop struct {
	// Interval is the pause between two times, Batch the most rows of one
	// transaction, Batches the most of them for one step at a time.
	Interval       time.Duration
	Batch, Batches int
	Steps          []Step
	Log            *slog.Logger
}

// Run prunes at every interval until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	for range clock.Every(ctx, l.Interval) {
		l.Tick(ctx)
	}
}

// Tick is what Run does at every interval. A step that fails stops no other.
func (l *Loop) Tick(ctx context.Context) {
	for _, step := range l.Steps {
		if err := l.take(ctx, step); err != nil && ctx.Err() == nil {
			l.Log.WarnContext(ctx, "what is over could not be pruned", "step", step.Name, "error", err)
		}
	}
}

func (l *Loop) take(ctx context.Context, step Step) error {
	for range l.Batches {
		if n, err := step.Do(ctx, l.Batch); err != nil || n < l.Batch {
			return err
		}
	}
	return nil
}
