package work

import (
	"context"
	"net/http"
	"testing"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

// arriving is a provider that the first question does not reach, and all others do.
type arriving struct {
	away
	answering
}

func (a *arriving) Run(ctx context.Context, p probe.Plan) (judge.Record, error) {
	if a.asked == 0 {
		return a.away.Run(ctx, p)
	}
	return a.answering.Run(ctx, p)
}

func (a *arriving) RunOn(ctx context.Context, p probe.Plan, _ string) (judge.Record, error) {
	return a.Run(ctx, p)
}

// A pause before each further question would keep a provider from its first request for
// minutes, and a whole run for an hour.
func TestAQuestionThatDidNotArriveDelaysARunOnce(t *testing.T) {
	t.Parallel()
	for _, quick := range []bool{true, false} {
		s := newSpoilt(t)
		s.benchmarks.Quick = quick
		s.benchmarks.Runner = &arriving{answering: answering{t: t, status: http.StatusOK}}
		if err := s.benchmarks.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		pauses := 0
		for s.runs(1)[0].State == store.RunRunning {
			due, err := s.Stores[0].DueRuns(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(due) == 0 {
				pauses++
				s.pass(s.benchmarks.retryPause())
				continue
			}
			if err := s.benchmarks.carryOn(t.Context(), due[0]); err != nil {
				t.Fatal(err)
			}
		}
		if pauses != 1 {
			t.Errorf("quick is %t: pauses: got %d, want 1", quick, pauses)
		}
	}
}
