package plan_test

import (
	"math/rand/v2"
	"testing"

	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/window"
)

func TestWithoutAKnownLengthNoPromptIsTooLong(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.BytesPerToken, o.EffectiveTokens, o.StatedTokens = 0, 4_096, 4_096
	w := writer()
	for _, p := range newWorld(o).run(t, 14) {
		r, _ := read(t, w, p.Plan)
		bytes := p.Plan.MaxTokens
		for _, m := range r.Messages {
			bytes += len(m.Content)
		}
		if bytes > 4_096 {
			t.Errorf("a %s of %d tokens: got %d bytes with its answer, want at most 4096", p.Plan.Kind, p.Plan.PromptTokens,
				bytes)
		}
	}
}

func TestWhatIsRecallableFitsTheWindow(t *testing.T) {
	t.Parallel()
	w := writer()
	for _, bytesPerToken := range []float64{.5, 1, 2.7, 4, 6} {
		window := 256
		for !plan.Recallable(window, bytesPerToken, plan.Needles) {
			window++
		}
		for n := range byte(20) {
			p := probe.Plan{
				ID: probe.ID{n, 15: 1}, Offer: offer(1).Offer, Kind: probe.Recall, Flow: probe.Hidden,
				MaxTokens: plan.RecallAnswer(plan.Needles, bytesPerToken), BytesPerToken: bytesPerToken,
			}
			plan.Place(rand.New(rand.NewPCG(1, uint64(n))), &p, 1, plan.Needles)
			r, _ := read(t, w, p)
			tokens := float64(len(r.Messages[0].Content)) / bytesPerToken
			if got := int(tokens) + p.MaxTokens; got > window {
				t.Errorf("%v bytes per token: got %d tokens with the answer, want at most %d", bytesPerToken, got, window)
			}
		}
	}
}

func TestTheLargestWindowThatIsMeasuredIsAskedForAsConsumersAsk(t *testing.T) {
	t.Parallel()
	for _, bytesPerToken := range []float64{1, 4} {
		o := offer(1)
		o.BytesPerToken, o.StatedTokens, o.EffectiveTokens = bytesPerToken, 8_192, 8_192
		m, err := window.New(plan.Measurable(o.StatedTokens, bytesPerToken))
		if err != nil {
			t.Fatal(err)
		}
		o.Measurement = &m
		measures := 0
		for _, p := range newWorld(o).run(t, 1) {
			if p.Plan.Kind != probe.Measure {
				continue
			}
			measures++
			if p.Plan.Flow != probe.Hidden {
				t.Errorf("%v bytes per token: a prompt of %d tokens is %s, want it hidden", bytesPerToken,
					p.Plan.PromptTokens, p.Plan.Flow)
			}
		}
		if measures < 20 {
			t.Errorf("%v bytes per token: got %d prompts in a day, want 20 at least", bytesPerToken, measures)
		}
	}
}

// A window of this size could not be told from a smaller one.
func TestAStatementOfAFewNeedlesCannotBeMeasured(t *testing.T) {
	t.Parallel()
	for stated, want := range map[int]bool{1_090: false, 1_091: true} {
		smallest, largest := plan.Measurable(stated, 4)
		if got := largest > smallest; got != want {
			t.Errorf("%d tokens can be measured: got %t (%d to %d), want %t", stated, got, smallest, largest, want)
		}
	}
}
