package work

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

const (
	// poll is the pause between two looks for probes while some are due that cannot be taken.
	poll = time.Second
	// longPoll bounds the pause while none is due. A probe that is planned meanwhile is that
	// late at most; planning looks every 20 seconds itself.
	longPoll = 5 * time.Second
)

// Runner carries out plans (package flow).
type Runner interface {
	// Run carries out a plan on whichever node serves it. Its errors are *flow.GiveBack and
	// *flow.Void.
	Run(ctx context.Context, plan probe.Plan) (judge.Record, error)
	// RunOn carries out a visible plan on one host.
	RunOn(ctx context.Context, plan probe.Plan, host string) (judge.Record, error)
}

// Queue takes probes that are due and carries them out, at most Parallel at a time, and of a
// provider at most store.MaxEach.
type Queue struct {
	Store    *store.Store
	Runner   Runner
	Mover    *Mover
	Pairing  *pairing.Matcher
	Clock    clock.Clock
	Log      *slog.Logger
	Replica  string
	Parallel int
	Haste    Haste
	// Enabled reports whether probes are sent.
	Enabled func(ctx context.Context) bool
}

// Run works until ctx ends. Then it gives back what is under way, and waits for that.
func (q *Queue) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, q.Parallel)
	for pause := q.Haste.Of(poll); clock.Sleep(ctx, pause) == nil; {
		free := q.Parallel - len(slots)
		if pause = q.pause(ctx, free); pause > 0 {
			continue
		}
		pause = q.Haste.Of(poll)
		plans, err := q.Store.Take(ctx, q.Replica, free)
		warn(ctx, q.Log, "probes could not be taken", err)
		for _, plan := range plans {
			slots <- struct{}{}
			running.Go(func() {
				defer func() { <-slots }()
				q.carryOut(ctx, plan)
			})
		}
	}
}

// pause is how long the queue may wait before it takes probes, 0 where some are due. It asks
// for the time of the next one, so a queue that waits asks little, and probes are sent at
// the times that they were planned for, which lie on no grid of seconds.
func (q *Queue) pause(ctx context.Context, free int) time.Duration {
	if free == 0 {
		return q.Haste.Of(poll)
	}
	if !q.Enabled(ctx) {
		return q.Haste.Of(longPoll)
	}
	wait, waits, err := q.Store.NextDue(ctx)
	switch {
	case err != nil:
		warn(ctx, q.Log, "probes could not be looked for", err)
		return q.Haste.Of(poll)
	case !waits:
		return q.Haste.Of(longPoll)
	default:
		return min(max(wait, 0), q.Haste.Of(longPoll))
	}
}

// carryOut carries out one probe and records how it ended.
func (q *Queue) carryOut(ctx context.Context, plan probe.Plan) {
	if plan.Purpose != probe.Evidence {
		// The replica that asked it has died, and whoever goes on with its run asks anew.
		rec, cancel := later(ctx)
		defer cancel()
		err := q.Store.DropProbe(rec, q.Replica, plan.ID, "its run goes on otherwise")
		warn(ctx, q.Log, "a probe could not be ended", err)
		return
	}
	hidden := plan.Flow == probe.Hidden
	if hidden {
		q.Pairing.Begin(plan.Offer, plan.ID, q.Clock.Now())
	}
	asked := q.Clock.Now()
	record, err := q.Runner.Run(ctx, plan)
	rec, cancel := later(ctx)
	defer cancel()
	if err != nil {
		q.Pairing.Forget(plan.Offer, plan.ID)
		q.unanswered(rec, plan, err)
		return
	}
	crash.At("verifier.probe.scored")
	if hidden {
		q.Pairing.Own(record.Answer.RequestID)
		if a := record.Answer; !a.Failed && (a.Status >= http.StatusBadRequest || cut(record)) {
			q.Pairing.Forget(plan.Offer, plan.ID) // which no attempt of a consumer counts as
		} else {
			q.Pairing.Ended(plan.Offer, plan.ID, a.Failed, asked)
		}
	}
	_, err = q.Mover.Move(rec, plan.Offer, store.ProbeKey(plan.ID), standing.Event{Judged: &record})
	if err == nil {
		q.Mover.Observer.Probed(rec, plan, "done", "")
		return
	}
	q.Log.ErrorContext(rec, "a probe could not be judged", "probe_id", plan.ID.String(), "error", err)
	if errors.Is(err, standing.ErrEvent) || errors.Is(err, judge.ErrRecord) {
		q.Mover.Observer.Probed(rec, plan, "void", "not_judged")
		err = q.Store.DropProbe(rec, q.Replica, plan.ID, "it could not be judged")
		warn(rec, q.Log, "a probe could not be ended", err)
		return
	}
	q.Mover.Observer.Probed(rec, plan, "given_back", "not_recorded")
	err = q.Store.GiveBack(rec, q.Replica, plan.ID, "it could not be recorded")
	warn(rec, q.Log, "a probe could not be given back", err)
}

// cut reports whether an answer was left before its end, because it took longer or became
// larger than its plan allows. A plan that hangs up has what it wanted.
func cut(r judge.Record) bool {
	hungUp := r.Plan.Streamed && r.Plan.HangUp > 0
	return !r.Answer.Complete && !hungUp
}

// unanswered ends a probe without a record.
func (q *Queue) unanswered(ctx context.Context, plan probe.Plan, why error) {
	var give *flow.GiveBack
	var void *flow.Void
	var err error
	switch {
	case errors.As(why, &give) && give.Reason == flow.Stopped:
		q.Mover.Observer.Probed(ctx, plan, "given_back", string(give.Reason))
		err = q.Store.Return(ctx, q.Replica, plan.ID)
	case errors.As(why, &give):
		q.Mover.Observer.Probed(ctx, plan, "given_back", string(give.Reason))
		err = q.Store.GiveBack(ctx, q.Replica, plan.ID, string(give.Reason))
	case errors.As(why, &void):
		q.Mover.Observer.Probed(ctx, plan, "void", string(void.Reason))
		err = q.Store.DropProbe(ctx, q.Replica, plan.ID, string(void.Reason))
	default:
		q.Log.ErrorContext(ctx, "a probe failed in an unknown way", "probe_id", plan.ID.String(), "error", why)
		q.Mover.Observer.Probed(ctx, plan, "given_back", "unknown")
		err = q.Store.GiveBack(ctx, q.Replica, plan.ID, "it failed in an unknown way")
	}
	warn(ctx, q.Log, "a probe could not be ended", err)
}

// reasonOf is the reason of an error of a Runner.
func reasonOf(err error) string {
	var give *flow.GiveBack
	var void *flow.Void
	switch {
	case errors.As(err, &give):
		return string(give.Reason)
	case errors.As(err, &void):
		return string(void.Reason)
	default:
		return "unknown"
	}
}
