package standing_test

import (
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

// blank returns the record of an answer that shows nothing.
func (o *offer) blank() judge.Record {
	o.t.Helper()
	r := judgetest.Greedy(o.t, judgetest.Say{N: o.n})
	r.Answer.Raw = []byte(`{"choices":[{"message":{"content":"\u200b "},"finish_reason":"stop"}]}`)
	return r
}

// stated returns the record of a probe that asks for log-probabilities, which are missing.
func (o *offer) stated() judge.Record {
	o.t.Helper()
	r := judgetest.Silent(o.t, judgetest.Say{N: o.n})
	r.Calibrations[evidence.Logprobs.String()] = judgetest.Calibration(o.t, evidence.Logprobs, .05, .02)
	return r
}

// many applies a record of the same kind again and again, an hour apart.
func (o *offer) many(n int, make func() judge.Record) {
	o.t.Helper()
	for range n {
		o.wait(time.Hour)
		o.judged(make())
	}
}

// proven begins an offer in the main lane.
func proven(t *testing.T) *offer {
	t.Helper()
	o := begin(t)
	o.run(judgetest.Passing())
	is(t, "lane at first", o.last.Published.Lane, trust.Main)
	return o
}

func TestAnOfferThatNobodyCanJudgeIsInTheProbeLaneUntilAProbeCounts(t *testing.T) {
	t.Parallel()
	o := proven(t)
	o.many(standing.UnjudgedVoids-1, o.blank)
	is(t, "lane before", o.last.Published.Lane, trust.Main)
	o.many(1, o.blank)
	is(t, "lane", o.last.Published.Lane, trust.Probe)
	is(t, "reason", o.state.Reason(o.last.Published.Lane, true), standing.ReasonUnjudged)
	is(t, "family", o.state.Unjudged.Family(), evidence.Greedy)
	is(t, "lane that is inherited", o.state.HeldLane(), trust.Probe)
	o.greedy(false)
	is(t, "lane once one counts", o.last.Published.Lane, trust.Main)
	is(t, "reason once one counts", o.state.Reason(o.last.Published.Lane, true), standing.ReasonNone)
	o.many(2, o.blank)
	is(t, "lane two later", o.last.Published.Lane, trust.Main)
	o.many(1, o.blank)
	is(t, "lane three later", o.last.Published.Lane, trust.Probe)
}

// left returns the record of an answer that was left before its end.
func (o *offer) left(why judge.Cut) judge.Record {
	o.t.Helper()
	r := judgetest.Greedy(o.t, judgetest.Say{N: o.n})
	r.Answer.Complete, r.Answer.Cut = false, why
	return r
}

func TestWhoAnswersTooSlowlyOrTooMuchIsInTheProbeLaneUntilAProbeCounts(t *testing.T) {
	t.Parallel()
	for _, why := range []judge.Cut{judge.Slow, judge.Large} {
		o := proven(t)
		o.many(standing.UnjudgedVoids-1, func() judge.Record { return o.left(why) })
		is(t, "lane before, "+string(why), o.last.Published.Lane, trust.Main)
		o.many(1, func() judge.Record { return o.left(why) })
		is(t, "lane, "+string(why), o.last.Published.Lane, trust.Probe)
		is(t, "reason, "+string(why), o.state.Reason(o.last.Published.Lane, true), standing.ReasonUnjudged)
		o.greedy(false)
		is(t, "lane once one counts, "+string(why), o.last.Published.Lane, trust.Main)
	}
}

func TestASlowProviderHasNoWatchAndNoEvidence(t *testing.T) {
	t.Parallel()
	o := proven(t)
	before := o.state.Process.M()
	o.many(2*standing.UnjudgedVoids, func() judge.Record { return o.left(judge.Slow) })
	is(t, "level", o.state.Level, ladder.Normal)
	is(t, "evidence", o.state.Process.M(), before)
}

// One slow answer of four is an honest machine's bad day, and judged by the rest.
func TestAProviderThatIsSlowNowAndThenStaysInMain(t *testing.T) {
	t.Parallel()
	o := proven(t)
	for range 3 * standing.UnjudgedVoids {
		o.wait(time.Hour)
		o.judged(o.left(judge.Slow))
		for range 3 {
			o.greedy(false)
		}
	}
	is(t, "lane", o.last.Published.Lane, trust.Main)
}

func TestALongRecallThatIsTooSlowIsOwed(t *testing.T) {
	t.Parallel()
	o := proven(t)
	o.recall(false)
	passed := o.state.RecalledAt
	o.wait(time.Hour)
	r := judgetest.Recall(t, judgetest.Say{N: o.n})
	r.Plan.PromptTokens, r.Answer.Complete, r.Answer.Cut = 16_000, false, judge.Slow
	o.judged(r)
	o.wait(time.Hour)
	o.recall(false)
	is(t, "the last passed recall that counts", o.state.RecalledAt, passed)
}

func TestWhatTheProviderDoesNotCauseLeavesTheLane(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*judge.Record){
		"no score":         func(r *judge.Record) { r.Scores = nil },
		"a broken score":   func(r *judge.Record) { r.Scores[0].Raw = []byte(`{}`) },
		"another text":     func(r *judge.Record) { r.Scores[0].Raw = judgetest.Score("other", 50, -1, -2) },
		"a failure":        func(r *judge.Record) { r.Answer.Failed = true },
		"another provider": func(r *judge.Record) { r.Answer.Served = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := proven(t)
			o.many(2*standing.UnjudgedVoids, func() judge.Record {
				r := judgetest.Greedy(t, judgetest.Say{N: o.n})
				change(&r)
				return r
			})
			is(t, "lane", o.last.Published.Lane, trust.Main)
		})
	}
}

func TestVoidsBlameNobodyWhereTheyProveNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*judge.Record)
		world  func(*standing.World)
	}{
		"a visible probe": {change: func(r *judge.Record) {
			r.Plan.Flow, r.Plan.Feeds = probe.Visible, evidence.Greedy
		}},
		"no calibration":         {change: func(r *judge.Record) { r.Calibrations = nil }},
		"the first version":      {change: func(r *judge.Record) { r.Version = 1 }},
		"an answer that we left": {change: func(r *judge.Record) { r.Plan.HangUp, r.Plan.Streamed = 3, true }},
		"a common cause":         {world: func(w *standing.World) { w.Brakes.CommonCause = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := proven(t)
			if c.world != nil {
				c.world(&o.world)
			}
			o.many(2*standing.UnjudgedVoids, func() judge.Record {
				r := o.blank()
				if c.change != nil {
					c.change(&r)
				}
				return r
			})
			is(t, "lane", o.last.Published.Lane, trust.Main)
		})
	}
}

// A cheat that only log-probabilities show leaves them out, and is judged by all else.
func TestAFamilyThatIsNeverJudgedIsNotOutweighedByOthers(t *testing.T) {
	t.Parallel()
	o := proven(t)
	for range standing.UnjudgedVoids {
		o.wait(time.Hour)
		o.judged(o.stated())
		o.greedy(false)
	}
	is(t, "lane", o.last.Published.Lane, trust.Probe)
	is(t, "family", o.state.Unjudged.Family(), evidence.Logprobs)
	o.wait(13 * 24 * time.Hour)
	o.tick()
	is(t, "lane 13 days later", o.last.Published.Lane, trust.Probe)
	o.wait(24 * time.Hour)
	o.tick()
	is(t, "lane when they were not asked for in 14 days", o.last.Published.Lane, trust.Main)
}

// Engines cut tokens in ways of their own.
func TestHowTokensAreCutIsHeldAgainstCalibratedEnginesAlone(t *testing.T) {
	t.Parallel()
	for engine, want := range map[string]trust.Lane{"tinylm": trust.Probe, "another": trust.Main, "": trust.Main} {
		o := proven(t)
		o.many(standing.UnjudgedVoids, func() judge.Record {
			r := o.stated()
			r.Plan.Stratum.Engine = engine
			r.Answer.Raw = []byte(`{"choices":[{"message":{"content":"` + judgetest.Answer + `"},"finish_reason":"length",` +
				`"logprobs":{"content":[{"token":"other","logprob":-1,"top_logprobs":[]}]}}]}`)
			return r
		})
		is(t, "lane of the engine "+engine, o.last.Published.Lane, want)
	}
}

func TestVoidedObservationsTakeVoidsBackToo(t *testing.T) {
	t.Parallel()
	o := proven(t)
	o.many(standing.UnjudgedVoids, o.blank)
	o.apply(standing.Event{Voided: &standing.Voiding{By: "operator", Since: o.now.Add(-time.Hour)}})
	is(t, "lane", o.last.Published.Lane, trust.Main)
}

func TestOtherReasonsOfLanesHaveTheirWords(t *testing.T) {
	t.Parallel()
	o := begin(t)
	is(t, "without a benchmark", o.state.Reason(trust.Shut, false), standing.ReasonBenchmark)
	o = proven(t)
	is(t, "of another account", o.state.Reason(trust.Probe, true), standing.ReasonInherited)
	is(t, "of a removed account", o.state.Reason(trust.Shut, true), standing.ReasonInherited)
	o.state.MisrepLane = trust.Probe
	is(t, "behind a notice", o.state.Reason(trust.Probe, true), standing.ReasonNotice)
}
