// Package effects carries out in other services what verdicts bring about: hubs hear of
// benchmarks and remove or reinstate providers, settlement opens penalties.
//
// An effect is written in the transaction of its verdict (package store), so none is lost,
// and every call is idempotent by the verdict's id, so a repeat harms nobody. Effects of a
// provider go in their order, one at a time. What fails is tried again after a pause that
// the outbox doubles up to a bound, without an end: a service that is away comes back. What
// the other service refuses for good is tried no more. It stays in the table for operators, is
// counted, and raises an alert, because then a verdict and the world differ.
package effects

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/probe"
)

const (
	// Batch bounds the effects that are taken at a time, and so the calls under way.
	Batch = 32
	// interval is the pause between two looks for effects.
	interval = time.Second
	// callTimeout bounds one call.
	callTimeout = 20 * time.Second
	// maxReason bounds what a hub writes into a provider's history, in bytes.
	maxReason = 200
)

// Kind is what an effect does.
type Kind string

// The kinds.
const (
	OpenPenalty     Kind = "open_penalty"
	Expel           Kind = "expel"
	Reinstate       Kind = "reinstate"
	ReportBenchmark Kind = "report_benchmark"
)

// Kinds returns every kind.
func Kinds() []Kind { return []Kind{OpenPenalty, Expel, Reinstate, ReportBenchmark} }

// Effect is one effect that was taken.
type Effect struct {
	ID       int64
	Kind     Kind
	Provider ids.ProviderID
	// Subject is the verdict that settlement and hubs know the penalty or removal by.
	Subject probe.VerdictID
	// Revision orders what hubs hear of a provider's benchmarks.
	Revision int64
	Summary  string
	// Penalty is what is opened.
	Penalty peers.Penalty
	// Passed reports whether some model of the provider has a fresh benchmark, since
	// PassedAt.
	Passed   bool
	PassedAt time.Time
}

// Outbox keeps effects. A replica that took some has them for a lease.
type Outbox interface {
	// TakeEffects takes effects that are due, at most limit, one of a provider.
	TakeEffects(ctx context.Context, replica string, limit int) ([]Effect, error)
	// EffectDone ends an effect.
	EffectDone(ctx context.Context, replica string, id int64) error
	// EffectFailed gives an effect back, to be tried again after a pause.
	EffectFailed(ctx context.Context, replica string, id int64, problem string) error
	// EffectRefused ends an effect that will never be carried out.
	EffectRefused(ctx context.Context, replica string, id int64, problem string) error
}

// Hubs hear of verdicts.
type Hubs interface {
	// Benchmark says whether a benchmark of a provider counts.
	Benchmark(
		ctx context.Context, provider ids.ProviderID, passed bool, passedAt time.Time, revision int64, reason string,
	) error
	// Expel removes a provider, and Reinstate undoes that.
	Expel(ctx context.Context, provider ids.ProviderID, verdict probe.VerdictID, reason string) error
	Reinstate(ctx context.Context, provider ids.ProviderID, verdict probe.VerdictID, reason string) error
}

// Settlement opens penalties.
type Settlement interface {
	// Open opens a penalty.
	Open(ctx context.Context, p peers.Penalty) (appealUntil time.Time, err error)
}

// Worker carries effects out.
type Worker struct {
	Replica    string
	Outbox     Outbox
	Hubs       Hubs
	Settlement Settlement
	Log        *slog.Logger
	// Ended is told how each try ended: done, delayed or refused.
	Ended func(ctx context.Context, k Kind, how string)
}

// Run carries out what is due, at every interval until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	for range clock.Every(ctx, interval) {
		for {
			n, err := w.Pass(ctx)
			if err != nil && ctx.Err() == nil {
				w.Log.WarnContext(ctx, "effects of verdicts could not be taken or ended", "error", err)
			}
			if n < Batch || err != nil || ctx.Err() != nil {
				break
			}
		}
	}
}

// Pass takes effects that are due and carries them out, at once, because each is of another
// provider: a service that does not answer keeps nobody else waiting, and no lease ends
// before its call. It returns how many it took.
func (w *Worker) Pass(ctx context.Context) (int, error) {
	list, err := w.Outbox.TakeEffects(ctx, w.Replica, Batch)
	if err != nil {
		return 0, err
	}
	faults := make([]error, len(list))
	var calls sync.WaitGroup
	for i, e := range list {
		calls.Go(func() { faults[i] = w.carryOut(ctx, e) })
	}
	calls.Wait()
	return len(list), errors.Join(faults...)
}

// carryOut makes the call of an effect and records how it ended.
func (w *Worker) carryOut(ctx context.Context, e Effect) error {
	crash.At("verifier.effect.taken")
	called, cancel := context.WithTimeout(ctx, callTimeout)
	err := w.call(called, e)
	cancel()
	crash.At("verifier.effect.called")
	// The outcome is recorded even if the process stops meanwhile.
	ctx = context.WithoutCancel(ctx)
	switch {
	case err == nil:
		w.Ended(ctx, e.Kind, "done")
		return w.Outbox.EffectDone(ctx, w.Replica, e.ID)
	case final(err):
		w.Ended(ctx, e.Kind, "refused")
		w.Log.ErrorContext(ctx, "an effect of a verdict is refused for good; an operator has to look", "effect_id", e.ID,
			"kind", string(e.Kind), "provider_id", e.Provider.String(), "verdict_id", e.Subject.String(), "error", err)
		return w.Outbox.EffectRefused(ctx, w.Replica, e.ID, problem(err))
	default:
		w.Ended(ctx, e.Kind, "delayed")
		return w.Outbox.EffectFailed(ctx, w.Replica, e.ID, problem(err))
	}
}

func (w *Worker) call(ctx context.Context, e Effect) error {
	reason := cut(e.Summary)
	switch e.Kind {
	case OpenPenalty:
		_, err := w.Settlement.Open(ctx, e.Penalty)
		return err
	case Expel:
		return w.Hubs.Expel(ctx, e.Provider, e.Subject, reason)
	case Reinstate:
		return w.Hubs.Reinstate(ctx, e.Provider, e.Subject, reason)
	case ReportBenchmark:
		return w.Hubs.Benchmark(ctx, e.Provider, e.Passed, e.PassedAt, e.Revision, reason)
	default:
		return fault.New(fault.Invalid, fault.InvalidValue, "no effect is called %.40q", string(e.Kind))
	}
}

// final reports whether an error says that another try would fail, too. A caller that is
// not allowed is a matter of set-up, which changes, and a time that is ahead of the other
// service's clock comes.
func final(err error) bool {
	f, ok := fault.As(err)
	if !ok || f.Reason == fault.TimeInFuture {
		return false
	}
	switch f.Kind {
	case fault.Invalid, fault.NotFound, fault.Precondition, fault.Conflict:
		return true
	default:
		return false
	}
}

// problem says for operators what happened: the reason of a fault, because the text of
// another error may hold anything.
func problem(err error) string {
	if f, ok := fault.As(err); ok {
		return string(f.Reason) + ": " + cut(f.Message)
	}
	return "the call failed"
}

// cut bounds a text in bytes, at the end of a character.
func cut(text string) string {
	const room = maxReason - 64 // problem puts a reason before it
	for len(text) > room {
		last := len(text) - 1
		for last > 0 && text[last]&0xc0 == 0x80 {
			last--
		}
		text = text[:last]
	}
	return text
}
