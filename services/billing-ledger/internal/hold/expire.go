package hold

import (
	"context"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
)

// Expirer looks after the holds whose time is over.
//
// It does so only while usage can arrive and the store answers, and both have
// been so for Grace: after an outage of this service, its store or the bus,
// usage is on its way to holds that look abandoned, and gateways have yet to
// renew the leases of what still runs. Grace must leave them the time.
type Expirer struct {
	// Every is the pause between two looks, Batch the most holds of one
	// transaction.
	Every time.Duration
	Batch int
	Grace time.Duration
	// Hearing tells whether usage can arrive now.
	Hearing func() bool
	// Steps are taken one after the other at each look.
	Steps []Step
	Clock clock.Clock
	Log   *slog.Logger
}

// Step does one thing with up to limit holds that are over by the database's
// clock, and returns with how many it has dealt.
type Step struct {
	Name string
	Do   func(ctx context.Context, limit int) (int, error)
}

// Run looks at every interval until ctx ends. A failure is logged, and the next
// look comes when Grace has passed.
func (e *Expirer) Run(ctx context.Context) {
	ticker := time.NewTicker(e.Every)
	defer ticker.Stop()
	since := e.Clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !e.Hearing() {
			since = e.Clock.Now()
		}
		if e.Clock.Now().Sub(since) < e.Grace {
			continue
		}
		if !e.look(ctx) {
			since = e.Clock.Now()
		}
	}
}

// look takes every step, batch after batch while they come full; false when one
// failed.
func (e *Expirer) look(ctx context.Context) bool {
	for _, step := range e.Steps {
		for {
			n, err := step.Do(ctx, e.Batch)
			if ctx.Err() != nil {
				return true
			}
			if err != nil {
				e.Log.ErrorContext(ctx, "holds that are over could not be looked after", "step", step.Name, "error", err)
				return false
			}
			if n < e.Batch {
				break
			}
		}
	}
	return true
}
