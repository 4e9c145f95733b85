package standing_test

import (
	"strings"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
	"svc.internal/services/verifier/internal/window"
)

// measure measures a provider whose window is windowTokens, and returns the number of
// prompts.
func (o *offer) measure(windowTokens int) int {
	o.t.Helper()
	for n := range window.MaxPrompts {
		o.wait(time.Hour)
		switch o.state.Measurement.Phase() {
		case window.Measuring:
			plan := o.state.Measurement.Plan()
			o.judged(judgetest.Measured(o.t, judgetest.Say{N: o.n}, probe.Measure, plan.FromEnd[:], windowTokens))
		case window.Checking:
			at := o.state.Measurement.CheckTokens()
			o.judged(judgetest.Measured(o.t, judgetest.Say{N: o.n}, probe.Check, []int{at, at / 2, at / 4, 10}, windowTokens))
		case window.Measured, window.Abandoned:
			return n
		}
	}
	o.t.Fatal("the measurement does not end")
	return 0
}

// near reports a number that is not within 3% of another.
func near(t *testing.T, what string, got int64, want float64) {
	t.Helper()
	if share := float64(got) / want; share < .97 || share > 1.03 {
		t.Errorf("%s: got %d, want about %v", what, got, want)
	}
}

func TestALostRecallMeasuresTheWindow(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.recall(true)
	if o.state.Measurement == nil {
		t.Fatal("nothing is measured")
	}
	if n := o.measure(3_000); n > 8 {
		t.Errorf("got %d prompts, want at most 8", n)
	}
	near(t, "measured", o.state.MeasuredTokens, 3_000)
	is(t, "cap before a notice", o.state.CapTokens, 0)
}

func TestANoticeForRecallCapsTheMeasuredWindow(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.recall(true)
	o.measure(3_000)
	o.run(judgetest.Passing())
	for o.state.Level != ladder.Notice {
		o.wait(time.Hour)
		o.recall(true)
	}
	is(t, "led", o.state.Led, evidence.Recall)
	near(t, "cap", o.last.Published.CapTokens, 3_000)
	is(t, "lane", o.last.Published.Lane, trust.Main)
	o.wait(time.Hour)
	o.run(judgetest.Passing())
	near(t, "cap after a benchmark in a notice", o.last.Published.CapTokens, 3_000)
}

func TestACapTakesThePlaceOfTheProbeLane(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	for o.state.Level != ladder.Notice {
		o.wait(time.Hour)
		o.recall(true)
	}
	is(t, "lane of an unmeasured window", o.last.Published.Lane, trust.Probe)
	o.measure(3_000)
	is(t, "lane of a measured window", o.last.Published.Lane, trust.Main)
	near(t, "cap", o.last.Published.CapTokens, 3_000)
}

// refused is a recall that was refused as too long.
func (o *offer) refused(tokens int) judge.Record {
	r := judgetest.Recall(o.t, judgetest.Say{N: o.n})
	r.Answer.TooLong, r.Answer.Complete, r.Answer.Status, r.Answer.Raw = true, false, 400, nil
	r.Plan.PromptTokens = tokens
	return r
}

// refuse measures a provider that refuses prompts above windowTokens as too long.
func (o *offer) refuse(windowTokens int) {
	o.t.Helper()
	o.judged(o.refused(6_000))
	for o.state.MeasuredTokens == 0 {
		o.wait(time.Hour)
		if o.state.Measurement.Phase() == window.Checking {
			o.measure(windowTokens)
			return
		}
		if plan := o.state.Measurement.Plan(); plan.Tokens > windowTokens {
			r := o.refused(plan.Tokens)
			r.Plan.Kind = probe.Measure
			o.judged(r)
		} else {
			o.judged(judgetest.Measured(o.t, judgetest.Say{N: o.n}, probe.Measure, plan.FromEnd[:], windowTokens))
		}
	}
}

func TestARefusalCapsAndIsNoLie(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	o.refuse(4_000)
	near(t, "cap", o.state.CapTokens, 4_000)
	is(t, "level", o.state.Level, ladder.Normal)
	is(t, "M", o.state.Process.M(), 0)
	is(t, "lane", o.last.Published.Lane, trust.Main)
	is(t, "cap after a passed benchmark", o.run(judgetest.Passing()).Published.CapTokens, 0)
}

func TestAReversalLeavesTheCapOfARefusal(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.refuse(4_000)
	o.penalized()
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: o.newest().ID, Final: standing.Reversed}})
	near(t, "cap", o.last.Published.CapTokens, 4_000)
}

func TestAReversalLiftsTheCap(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.recall(true)
	o.measure(3_000)
	for _, level := range []ladder.Level{ladder.Notice, ladder.Confirm, ladder.Penalty} {
		for o.state.Level != level {
			o.wait(time.Hour)
			o.recall(true)
		}
		o.host = "reference-2"
		near(t, "cap", o.state.CapTokens, 3_000)
	}
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: o.newest().ID, Final: standing.Reversed}})
	is(t, "cap", o.last.Published.CapTokens, 0)
}

func TestARecallThatTheMeasuredWindowExplainsMeasuresNothing(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.recall(true)
	o.measure(3_000)
	o.recall(true)
	is(t, "phase after a longer prompt", o.state.Measurement.Phase(), window.Measured)
	within := judgetest.Recall(t, judgetest.Say{N: o.n, Exceeded: true})
	within.Plan.PromptTokens = 2_000
	o.judged(within)
	is(t, "phase after a prompt within", o.state.Measurement.Phase(), window.Measuring)
	is(t, "the old result", o.state.MeasuredTokens, 0)
}

func TestTrafficDoesNotLiftACap(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	o.refuse(4_000)
	o.apply(standing.Event{Run: &standing.RunJudged{Traffic: &battery.Traffic{Served: 200, Recalled: true}}})
	near(t, "cap", o.last.Published.CapTokens, 4_000)
}

func TestAnUnknownWindowIsNotMeasured(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.world.StatedTokens = 0
	o.recall(true)
	if o.state.Measurement != nil {
		t.Error("a window that nobody stated is measured")
	}
}

func TestAMeasuredWindowThatShrinksIsMeasuredAnew(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.recall(true)
	o.measure(3_000)
	check := func(windowTokens int) {
		at := o.state.Measurement.CheckTokens()
		o.judged(judgetest.Measured(t, judgetest.Say{N: o.n}, probe.Check, []int{at, at - 1, at / 2, 10}, windowTokens))
	}
	check(3_000)
	is(t, "phase after a passed check", o.state.Measurement.Phase(), window.Measured)
	check(1_000)
	is(t, "phase after a failed check", o.state.Measurement.Phase(), window.Measuring)
	o.measure(1_000)
	near(t, "measured", o.state.MeasuredTokens, 1_000)
}

func TestALateAnswerOfAMeasurementMovesNothing(t *testing.T) {
	t.Parallel()
	o := begin(t)
	r := judgetest.Measured(t, judgetest.Say{N: 1}, probe.Measure, []int{100, 200}, 3_000)
	o.judged(r)
	if o.state.Measurement != nil {
		t.Error("an answer that nobody waits for begins a measurement")
	}
}

// unmeasurable is a window below those that can be measured, and smallestMeasured the smallest
// of these, at four bytes a token.
const (
	unmeasurable     = 300
	smallestMeasured = 750
)

func TestAWindowTooSmallToBeMeasuredIsUnmeasured(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	for o.state.Level != ladder.Notice {
		o.wait(time.Hour)
		o.recall(true)
	}
	if n := o.measure(unmeasurable); n > 6 {
		t.Errorf("prompts: got %d, want at most 6", n)
	}
	is(t, "unmeasured", o.state.Unmeasured(), true)
	is(t, "measuring", o.state.Measuring(), false)
	is(t, "measured", o.state.MeasuredTokens, 0)
	is(t, "cap", o.last.Published.CapTokens, 0)
	is(t, "lane", o.last.Published.Lane, trust.Probe)
}

func TestAnUnmeasuredWindowIsMeasuredAgainOnlyOnceAnotherIsStated(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.recall(true)
	o.measure(unmeasurable)
	o.recall(true)
	is(t, "phase after another lost recall", o.state.Measurement.Phase(), window.Abandoned)
	o.world.StatedTokens += o.world.StatedTokens / 50
	o.recall(true)
	is(t, "phase at about the same statement", o.state.Measurement.Phase(), window.Abandoned)
	o.world.StatedTokens /= 2
	o.recall(true)
	is(t, "phase at another statement", o.state.Measurement.Phase(), window.Measuring)
}

// What comes back has nothing to do with where it stands.
func TestAMeasurementThatDoesNotEndIsGivenUp(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.recall(true)
	for n := 0; o.state.Measurement.Phase() == window.Measuring; n++ {
		if n == 24 {
			t.Fatal("a measurement goes on after 24 prompts")
		}
		o.wait(time.Hour)
		at := make([]int, window.Needles)
		for i := range at {
			at[i] = 800 + 440*i
		}
		r := judgetest.Measured(t, judgetest.Say{N: o.n}, probe.Measure, at, 8_000)
		var codes []string
		for i, code := range r.Needles {
			if (i+n)%2 == 0 {
				codes = append(codes, code)
			}
		}
		r.Answer.Raw = []byte(`{"choices":[{"message":{"content":"` + strings.Join(codes, " ") + `"}}]}`)
		o.judged(r)
	}
	is(t, "phase", o.state.Measurement.Phase(), window.Abandoned)
	is(t, "prompts", o.state.Measurement.Prompts(), 24)
}

func TestARefusalCapsAnUnmeasuredWindowToo(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	o.judged(o.refused(unmeasurable))
	is(t, "phase", o.state.Measurement.Phase(), window.Abandoned)
	is(t, "cap", o.state.CapTokens, smallestMeasured)
}

// Evidence of then must replay as it was.
func TestRecordsOfEarlierRulesMeasureAsThen(t *testing.T) {
	t.Parallel()
	for version, smallest := range map[int]float64{2: window.MinTokens, 3: smallestMeasured} {
		o := begin(t)
		r := judgetest.Recall(t, judgetest.Say{N: o.n, Exceeded: true})
		r.Version = version
		o.judged(r)
		if low, _ := o.state.Measurement.Interval(); low < smallest || low > 1.1*smallest {
			t.Errorf("smallest window by version %d: got %v, want %v", version, low, smallest)
		}
	}
}
