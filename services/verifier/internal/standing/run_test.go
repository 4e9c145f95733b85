package standing_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

// other are those of a run whose answers are another model's.
func other() battery.Facts {
	f := judgetest.Passing()
	for i := range battery.MaxExceeding {
		f.Questions[i].Exceeded = true
	}
	for i := range battery.Questions {
		f.Again = append(f.Again, battery.Question{ID: fmt.Sprint("again ", i), Exceeded: i < battery.MaxExceeding})
	}
	return f
}

func (o *offer) run(f battery.Facts) standing.Outcome {
	o.t.Helper()
	return o.apply(standing.Event{Run: &standing.RunJudged{Facts: f}})
}

func TestAPassedBenchmarkOpensTheMainLaneForThirtyDays(t *testing.T) {
	t.Parallel()
	o := begin(t)
	is(t, "lane before", o.tick().Published.Lane, trust.Shut)
	p := o.run(judgetest.Passing()).Published
	is(t, "lane", p.Lane, trust.Main)
	is(t, "proven", p.Proven, true)
	is(t, "passed at", p.PassedAt, o.now)
	o.wait(standing.Fresh)
	is(t, "lane after thirty days", o.tick().Published.Lane, trust.Shut)
}

func TestFailuresInARowAreWarnedFinedAndRemoved(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	slashes, lanes := "", ""
	for range 3 {
		o.wait(2 * time.Hour)
		out := o.run(other())
		v := o.newest()
		slashes += fmt.Sprint(v.Effects.Slash, v.NeedsOperator, " ")
		lanes += string(out.Published.Lane) + " "
	}
	is(t, "penalties", slashes, "0 false 1000 false 0 true ")
	is(t, "lanes", lanes, "shut shut shut ")
	is(t, "standing", o.state.Run, ladder.Removed)
	o.apply(standing.Event{Operator: &standing.Approval{Verdict: o.newest().ID, By: "operator"}})
	is(t, "slash", o.newest().Effects.Slash, ladder.NextPenalty)
	is(t, "removal", o.newest().Effects.Remove, true)
}

func TestAReversedFineLeavesAWarning(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	o.run(other())
	o.run(other())
	fine := o.newest()
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: fine.ID, Final: standing.Reversed}})
	v := o.newest()
	is(t, "trigger", v.Trigger, "undo")
	is(t, "of", v.Of, fine.ID)
	is(t, "count", v.Effects.Count, -1)
	is(t, "standing", o.state.Run, ladder.Warned)
	is(t, "reinstate", v.Effects.Reinstate, false)
}

func TestAnExecutedFineWaitsForAPassedRun(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	o.run(other())
	o.run(other())
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: o.newest().ID, Final: standing.Executed}})
	is(t, "standing", o.state.Run, ladder.Fined)
	is(t, "lane of a passed run", o.run(judgetest.Passing()).Published.Lane, trust.Main)
}

func TestFailuresAreForgottenAfterCleanDays(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	o.run(other())
	o.wait(ladder.CleanPeriod)
	o.tick()
	is(t, "standing", o.state.Run, ladder.Lapsed)
	is(t, "lane", o.last.Published.Lane, trust.Shut)
}

func TestAnswersDoNotFailABenchmarkUnderACommonCause(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	o.world.Brakes.CommonCause = true
	out := o.run(other())
	is(t, "held", out.Held, ladder.CommonCause)
	is(t, "standing", o.state.Run, ladder.Proven)
	is(t, "last result", o.state.LastResult, ladder.Spoiled)
}

func TestAFineIsHeldWhilePenaltiesAreOff(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.world.Brakes.PenaltiesOff = true
	o.run(judgetest.Passing())
	o.run(other())
	out := o.run(other())
	is(t, "held", out.Held, ladder.PenaltiesOff)
	is(t, "standing", o.state.Run, ladder.Warned)
	is(t, "open penalties", len(o.state.Open), 0)
}

func TestAnswersFineNobodyOnAHalfCalibration(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.world.Brakes.WatchOnly = true
	o.run(judgetest.Passing())
	o.run(other())
	is(t, "held", o.run(other()).Held, ladder.PenaltiesOff)
	slow := judgetest.Passing()
	slow.Answered = 0
	o.run(slow)
	is(t, "slash for what needs no calibration", o.newest().Effects.Slash, ladder.FirstPenalty)
}

func TestARunThatHasNotEndedIsRefused(t *testing.T) {
	t.Parallel()
	f := other()
	f.Again = nil
	o := begin(t)
	if _, _, err := o.try(standing.Event{Run: &standing.RunJudged{Facts: f}}); !errors.Is(err, standing.ErrEvent) {
		t.Errorf("got %v, want %v", err, standing.ErrEvent)
	}
}

func TestTrafficRenewsOnlyAProvenOffer(t *testing.T) {
	t.Parallel()
	renewal := standing.Event{Run: &standing.RunJudged{Traffic: &battery.Traffic{Served: 200, Recalled: true, M: 1e9}}}
	o := begin(t)
	if _, _, err := o.try(renewal); !errors.Is(err, standing.ErrEvent) {
		t.Errorf("unproven: got %v, want %v", err, standing.ErrEvent)
	}
	o.run(judgetest.Passing())
	o.wait(20 * 24 * time.Hour)
	is(t, "passed at", o.apply(renewal).Published.PassedAt, o.now) // M is the state's own
	o.until(ladder.Watch)
	if _, _, err := o.try(renewal); !errors.Is(err, standing.ErrEvent) {
		t.Errorf("watched: got %v, want %v", err, standing.ErrEvent)
	}
}

// Who sends answers that nobody can judge has no evidence against it, and many requests.
func TestTrafficDoesNotRenewAnOfferThatIsNeverJudged(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	for range ladder.SilentVoids {
		o.wait(time.Hour)
		o.judged(judgetest.Silent(t, judgetest.Say{N: o.n}))
	}
	is(t, "level", o.state.Level, ladder.Watch)
	is(t, "evidence", o.state.Process.M() < battery.RenewalEvidence, true)
	renewal := standing.Event{Run: &standing.RunJudged{Traffic: &battery.Traffic{Served: 200, Recalled: true}}}
	if _, _, err := o.try(renewal); !errors.Is(err, standing.ErrEvent) {
		t.Errorf("got %v, want %v", err, standing.ErrEvent)
	}
}

func TestTheWorseOfBothLanesIsPublished(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	o.until(ladder.Notice)
	is(t, "lane in a notice", o.last.Published.Lane, trust.Probe)
	is(t, "lane after a passed run", o.run(judgetest.Passing()).Published.Lane, trust.Probe)
	is(t, "lane after a failed run", o.run(other()).Published.Lane, trust.Shut)
}

func TestABenchmarkIsAskedForOnceAnHour(t *testing.T) {
	t.Parallel()
	o := begin(t)
	ask := standing.Event{Asked: &standing.Ask{}}
	o.apply(ask)
	o.wait(ladder.AskPause - time.Second)
	if _, _, err := o.try(ask); !errors.Is(err, standing.ErrEvent) {
		t.Errorf("got %v, want %v", err, standing.ErrEvent)
	}
	o.wait(time.Second)
	o.apply(ask)
	is(t, "asked", o.state.Asked, o.now)
}

func TestNoMorePenaltiesThanSettlementCanDecideAreOpen(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	for range 2 * standing.MaxOpen {
		o.run(other())
		o.run(other())
		o.run(judgetest.Passing())
	}
	is(t, "open penalties", len(o.state.Open), standing.MaxOpen)
	is(t, "held", o.run(other()).Held+o.run(other()).Held, ladder.PenaltiesOff)
	o.until(ladder.Confirm)
	o.host = "reference-2"
	for range 30 {
		o.greedy(true)
	}
	is(t, "level", o.state.Level, ladder.Confirm)
	is(t, "held in confirm", o.last.Held, ladder.PenaltiesOff)
}

func TestQuestionsOfABenchmarkFeedOnlyV(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.judged(judgetest.Greedy(t, judgetest.Say{Benchmark: true}))
	is(t, "passed hidden observations", o.state.Passed, 0)
	if o.state.Process.Of(7) == 0 {
		t.Error("V has not moved")
	}
	is(t, "B", o.state.Process.Of(1), 0)
}
