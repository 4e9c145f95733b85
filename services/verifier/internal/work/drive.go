package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/bench"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// Run works until ctx ends, and then waits for what is under way.
func (b *Benchmarks) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() {
		for range clock.Every(ctx, b.Haste.Of(beginInterval)) {
			if b.Enabled(ctx) {
				warn(ctx, b.Log, "benchmarks could not be begun", b.Begin(ctx))
			}
		}
	})
	loops.Go(func() { b.drive(ctx) })
	loops.Wait()
}

// drive carries runs on until ctx ends, and then waits for what is under way.
func (b *Benchmarks) drive(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, b.Parallel)
	var places places
	for range clock.Every(ctx, b.Haste.Of(driveInterval)) {
		free := b.Parallel - len(slots)
		if free == 0 || !b.Enabled(ctx) {
			continue
		}
		due, err := b.Store.DueRuns(ctx, free, places.list()...)
		warn(ctx, b.Log, "benchmark runs could not be read", err)
		for _, row := range due {
			slots <- struct{}{}
			places.take(row.Offer.Provider)
			running.Go(func() {
				defer func() { <-slots }()
				defer places.give(row.Offer.Provider)
				warn(ctx, b.Log, "a benchmark run could not be carried on", b.carryOn(ctx, row))
			})
		}
	}
}

// carryOn takes a run for a lease, asks what it asks next, and records the answers.
func (b *Benchmarks) carryOn(ctx context.Context, row store.Run) error {
	now, err := b.Store.Now(ctx)
	if err != nil {
		return err
	}
	row.NextAt = now.Add(runLease)
	if err := b.Store.StepRun(ctx, row); err != nil {
		if errors.Is(err, store.ErrRevision) {
			return nil // another replica has it
		}
		return err
	}
	row.Revision++
	run, err := bench.ReadRun(row.Body)
	if err != nil {
		return fmt.Errorf("read the benchmark run %v: %w", row.ID, err)
	}
	missed := run.Missed()
	if !run.Ended() {
		stop := b.renewing(ctx, &row)
		run, err = b.askNext(ctx, run, now)
		stop()
		if err != nil {
			return err
		}
	}
	rec, cancel := later(ctx)
	defer cancel()
	if run.Ended() {
		return b.finish(rec, row, run)
	}
	if now, err = b.Store.Now(rec); err != nil {
		return err
	}
	row.NextAt = run.Due()
	if stopping := ctx.Err() != nil; stopping || row.NextAt.Before(now) {
		row.NextAt = now
	}
	if run.Missed() > missed && row.NextAt.Equal(now) {
		row.NextAt = now.Add(b.Haste.Of(b.retryPause()))
	}
	if row.Body, err = run.Form(); err != nil {
		return err
	}
	return b.Store.StepRun(rec, row)
}

// retryPause returns the pause before a question is asked again that did not reach the provider.
func (b *Benchmarks) retryPause() time.Duration {
	if b.Quick { // a person waits for a demo
		return quickRetryPause
	}
	return retryPause
}

// renewing renews the lease of a run until stop is called. The run is stop's caller's again
// once stop has returned.
func (b *Benchmarks) renewing(ctx context.Context, row *store.Run) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		for range clock.Every(ctx, b.Haste.Of(renewInterval)) {
			switch err := b.renewLease(ctx, row); {
			case errors.Is(err, store.ErrRevision):
				return // another replica has it
			case ctx.Err() == nil:
				warn(ctx, b.Log, "the lease of a benchmark run could not be renewed", err)
			}
		}
	})
	return func() {
		cancel()
		renewal.Wait()
	}
}

func (b *Benchmarks) renewLease(ctx context.Context, row *store.Run) error {
	now, err := b.Store.Now(ctx)
	if err != nil {
		return err
	}
	row.NextAt = now.Add(runLease)
	// A step that is given up may have been taken, and then its revision is unknown.
	rec, cancel := later(ctx)
	defer cancel()
	if err := b.Store.StepRun(rec, *row); err != nil {
		return err
	}
	row.Revision++
	return nil
}

// askNext asks what the run asks at once.
func (b *Benchmarks) askNext(ctx context.Context, run bench.Run, now time.Time) (bench.Run, error) {
	plans := run.Next(now)
	probes := make([]store.QueuedProbe, len(plans))
	for i, p := range plans {
		probes[i] = store.QueuedProbe{Plan: p}
	}
	if err := b.Store.Begin(ctx, b.Replica, probes...); err != nil {
		return run, err
	}
	reports, faults := make([]*bench.Report, len(plans)), make([]error, len(plans))
	var asking sync.WaitGroup
	for i, p := range plans {
		asking.Go(func() { reports[i], faults[i] = b.question(ctx, p) })
	}
	asking.Wait()
	rec, cancel := later(ctx)
	defer cancel()
	at, err := b.Store.Now(rec)
	if err != nil {
		return run, err
	}
	for i, p := range plans {
		switch why := reasonOf(faults[i]); {
		case reports[i] != nil:
			run, err = run.Took(*reports[i], at)
		case ctx.Err() != nil: // it is asked again
		case why == string(flow.Disconnected):
			run, err = run.Lost(p.ID, at)
		case why == string(flow.Offline):
			run, err = run.Offline(p.ID, at)
		default:
			run, err = run.NotAsked(p.ID, at)
		}
		if err != nil {
			return run, err
		}
		if run.Ended() {
			break
		}
	}
	return run, nil
}

// question asks one question. It returns no report where there is no answer to read, and the
// Runner's error.
func (b *Benchmarks) question(ctx context.Context, p probe.Plan) (*bench.Report, error) {
	record, err := b.Runner.Run(ctx, p)
	rec, cancel := later(ctx)
	defer cancel()
	if err != nil {
		b.Mover.Observer.Probed(rec, p, "given_back", reasonOf(err))
		b.Log.InfoContext(rec, "a question of a benchmark has no answer", "run_id", p.Run.String(), "provider_id",
			p.Offer.Provider.String(), "model", p.Offer.Model, "reason", reasonOf(err))
		return nil, err
	}
	j, err := judge.Judge(record)
	if err != nil {
		b.Log.ErrorContext(rec, "a question of a benchmark could not be judged", "probe_id", p.ID.String(), "error", err)
		return nil, err
	}
	b.Mover.Observer.Probed(rec, p, "done", "")
	if p.Feeds != evidence.NoFamily {
		_, err := b.Mover.Move(rec, p.Offer, store.ProbeKey(p.ID), standing.Event{Judged: &record})
		warn(rec, b.Log, "an observation of a benchmark could not be recorded", err)
	} else {
		warn(rec, b.Log, "a question of a benchmark could not be ended", b.Store.Done(rec, b.Replica, p.ID))
	}
	report := bench.Read(record, j)
	return &report, nil
}

// ends are the states of runs that ended.
var ends = map[battery.Outcome]store.RunState{
	battery.Pass: store.RunPassed, battery.Fail: store.RunFailed, battery.Void: store.RunVoid,
}

// finish moves the offer's standing by a run that ended, and then ends the run. A crash in
// between repeats both, and the standing moves once.
func (b *Benchmarks) finish(ctx context.Context, row store.Run, run bench.Run) error {
	j := run.Judgement()
	e := standing.Event{Run: &standing.RunJudged{Run: run.ID, Traffic: run.Traffic}}
	if run.Traffic == nil {
		e.Run.Facts = run.Facts()
	}
	state, ok := ends[j.Outcome]
	if !ok {
		return fmt.Errorf("the benchmark run %v ended with %q", run.ID, j.Outcome)
	}
	_, err := b.Mover.Move(ctx, row.Offer, store.EventKey("run/"+run.ID.String()), e)
	switch {
	case errors.Is(err, standing.ErrEvent): // traffic that stands for no benchmark any more
		b.Log.WarnContext(ctx, "a benchmark run moved nothing", "run_id", run.ID.String(), "error", err)
		state = store.RunVoid
	case err != nil:
		return err
	}
	if row.Body, err = run.Form(); err != nil {
		return err
	}
	row.State, row.Findings = state, j.Findings
	b.Log.InfoContext(ctx, "a benchmark ended", "run_id", run.ID.String(), "provider_id", row.Offer.Provider.String(),
		"model", row.Offer.Model, "result", string(state), "findings", j.Findings)
	return b.Store.StepRun(ctx, row)
}
