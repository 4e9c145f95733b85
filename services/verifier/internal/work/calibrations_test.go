package work

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/store/storetest"
)

// silent are references that nobody can score, as a single one is.
type silent struct {
	mu    sync.Mutex
	asked map[string]int
}

func (s *silent) Run(context.Context, probe.Plan) (judge.Record, error) {
	return judge.Record{}, &flow.Void{Reason: flow.NoReference}
}

func (s *silent) RunOn(_ context.Context, p probe.Plan, _ string) (judge.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[p.Offer.Model]++
	return judge.Record{}, &flow.Void{Reason: flow.NoReference}
}

// A model with one reference can never be calibrated, because no host scores itself.
func TestACalibrationThatStandsStillKeepsNoOtherFromItsTurn(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	view := offers.New()
	report := offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: 1}
	models, ratios := []string{"a", "b", "c"}, map[string]ratio{}
	for i, model := range models {
		ratios[model] = ratio{bytes: 4}
		report.Sessions = append(report.Sessions, offers.Session{Provider: storetest.Provider(t), Node: "n",
			Epoch: int64(i + 1), Reference: true, Models: []offers.Model{{ID: model, Healthy: true, Window: 4096,
				Quantization: "fp16", Class: quant.Bits16}}})
	}
	view.Apply(report, time.Now())
	runner := &silent{asked: map[string]int{}}
	c := &Calibrations{Store: e.Stores[0], Runner: runner, Offers: view, Models: oneModel{}, Book: NewBook(e.Stores[0]),
		Log: slog.New(slog.DiscardHandler), Challenges: 10, Sibling: func(string) string { return "" },
		Ratios: &Ratios{known: ratios}}
	for range models {
		if err := c.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := len(runner.asked), len(models); got != want {
		t.Errorf("models that were asked in so many looks: got %d, want %d", got, want)
	}
	before := runner.asked["a"] + runner.asked["b"] + runner.asked["c"]
	for range 2 { // the first finds that all stand still
		if err := c.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := runner.asked["a"] + runner.asked["b"] + runner.asked["c"]; got <= before {
		t.Errorf("questions once all stood still: got %d, want more than %d", got, before)
	}
}
