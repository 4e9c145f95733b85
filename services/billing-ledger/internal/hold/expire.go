package hold

import (
	"context"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
)

// Expirer closes or reviews the holds whose lease is over.
//
// It does so only while usage can arrive and the store answers, and only once both have
// been so for Grace. After an outage of this service, of its store or of the bus, usage
// is on its way to holds that look abandoned, and gateways have yet to renew the leases
// of running requests. Grace gives them the time. A standstill is an outage too: a
// process that was stopped and continues notices only that time has passed.
//
// It also waits while any replica has usage that is older than a moment and not settled.
// So no outage of NATS, of the database or of this service turns a served request into
// orphan work, or ends a lease before its gateway could renew it.
type Expirer struct {
	// Interval is the pause between two looks. Batch bounds the holds of one transaction.
	Interval time.Duration
	Batch    int
	Grace    time.Duration
	// Ready returns the store's time. It returns an error when the store does not answer,
	// when usage cannot arrive, or when usage waits for longer than it should. It must
	// return before the next look.
	Ready func(ctx context.Context) (time.Time, error)
	// Steps run one after the other at each look.
	Steps []Step
	Clock clock.Clock
	Log   *slog.Logger

	// since is the moment since which all has been well. ticked is the end of the last
	// look, or of the decision to skip one.
	since, ticked time.Time
	// kept reports whether the log already says why nothing is closed.
	kept bool
}

// Step takes one step with up to limit holds that are over by the store's clock, and were
// over at asOf already. It returns the number of holds that it handled.
type Step struct {
	Name string
	// Still leaves out looks that would find nothing.
	Still *clock.Still
	Do    func(ctx context.Context, asOf time.Time, limit int) (int, error)
}

// Whenever makes the work of a step to which asOf does not matter.
func Whenever(do func(ctx context.Context, limit int) (int, error)) func(context.Context, time.Time, int) (int, error) {
	return func(ctx context.Context, _ time.Time, limit int) (int, error) { return do(ctx, limit) }
}

// Run looks at every interval until ctx ends. It logs a failure and looks again when
// Grace has passed.
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

// say logs the first reason of each period in which nothing is closed.
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

// look runs every step, batch after batch while the batches are full. It returns false
// when a step failed.
func (e *Expirer) look(ctx context.Context, asOf time.Time) bool {
	for _, step := range e.Steps {
		if step.Still.Holds(ctx) {
			continue
		}
		for {
			n, err := step.Do(ctx, asOf, e.Batch)
			if ctx.Err() != nil {
				return true
			}
			if step.Still.Learn(err) != nil {
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
