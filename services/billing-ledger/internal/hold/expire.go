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
// renew the leases of what still runs. Grace must leave them the time. A
// standstill is an outage too: a service or a store that was stopped and goes
// on notices nothing but that time has passed.
type Expirer struct {
	// Interval is the pause between two looks, Batch the most holds of one
	// transaction.
	Interval time.Duration
	Batch    int
	Grace    time.Duration
	// Ready gives the store's time, or an error when the store does not answer,
	// or when usage cannot arrive or waits for longer than it should. It has
	// until the next look.
	Ready func(ctx context.Context) (time.Time, error)
	// Steps are taken one after the other at each look.
	Steps []Step
	Clock clock.Clock
	Log   *slog.Logger

	// since is from when on all has been well, ticked the end of the last look
	// or of the decision to do without.
	since, ticked time.Time
	// kept tells that the log has said why nothing is looked after.
	kept bool
}

// Step does one thing with up to limit holds that are over by the store's
// clock, and were so at asOf already, and returns with how many it has dealt.
type Step struct {
	Name string
	Do   func(ctx context.Context, asOf time.Time, limit int) (int, error)
}

// Whenever is the work of a step for which it does not matter since when.
func Whenever(do func(ctx context.Context, limit int) (int, error)) func(context.Context, time.Time, int) (int, error) {
	return func(ctx context.Context, _ time.Time, limit int) (int, error) { return do(ctx, limit) }
}

// Run looks at every interval until ctx ends. A failure is logged, and the next
// look comes when Grace has passed.
func (e *Expirer) Run(ctx context.Context) {
	e.begin()
	for range clock.Every(ctx, e.Interval) {
		e.Tick(ctx)
	}
}

func (e *Expirer) begin() {
	e.since = e.Clock.Now()
	e.ticked = e.since
}

// Tick is what Run does at every interval.
func (e *Expirer) Tick(ctx context.Context) {
	if e.since.IsZero() {
		e.begin()
	}
	began := e.Clock.Now()
	asOf, err := e.ready(ctx)
	now := e.Clock.Now()
	stoodStill := began.Sub(e.ticked) > 2*e.Interval || now.Sub(began) > e.Interval/2
	e.say(ctx, err)
	if err != nil || stoodStill || now.Sub(e.since) >= e.Grace && !e.look(ctx, asOf) {
		e.since = e.Clock.Now()
	}
	e.ticked = e.Clock.Now()
}

// say logs the first reason of each time that holds are not looked after.
func (e *Expirer) say(ctx context.Context, err error) {
	if err != nil && !e.kept && ctx.Err() == nil {
		e.Log.WarnContext(ctx, "holds that are over are kept until all has been well for a while", "grace", e.Grace, "error",
			err)
	}
	e.kept = err != nil
}

func (e *Expirer) ready(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Interval)
	defer cancel()
	return e.Ready(ctx)
}

// look takes every step, batch after batch while they come full; false when one
// failed.
func (e *Expirer) look(ctx context.Context, asOf time.Time) bool {
	for _, step := range e.Steps {
		for {
			n, err := step.Do(ctx, asOf, e.Batch)
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
