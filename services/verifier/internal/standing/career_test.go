package standing_test

import (
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

func TestACheatGoesTheWholeLadder(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Watch)
	is(t, "verdicts of a silent watch", o.triggers(), "")
	o.until(ladder.Notice)
	noticed := o.now
	is(t, "lane after the notice", o.last.Published.Lane, trust.Shut) // no benchmark was passed
	is(t, "lane of the ladder", o.state.MisrepLane, trust.Probe)
	is(t, "M after the notice", o.state.Process.M(), 0)
	is(t, "leading", o.newest().Leading, evidence.Greedy)
	o.until(ladder.Confirm)
	if got := o.now.Sub(noticed); got < ladder.NoticePeriod {
		t.Errorf("confirm after %v, want at least %v", got, ladder.NoticePeriod)
	}
	if got := len(o.state.Hours); got < ladder.PenaltyHours {
		t.Errorf("got %d hours with b = 1, want %d", got, ladder.PenaltyHours)
	}
	o.host = "reference-2"
	o.until(ladder.Penalty)
	v := o.newest()
	is(t, "verdicts", o.triggers(), "notify pursue convict ")
	is(t, "slash", v.Effects.Slash, ladder.FirstPenalty)
	is(t, "needs an operator", v.NeedsOperator, false)
	is(t, "count", v.Effects.Count, 1)
	p, ok := o.state.OpenPenalty(standing.Misrepresentation)
	is(t, "open", ok, true)
	is(t, "the open penalty's verdict", p.Verdict, v.ID)
}

func TestScoresOfTheHostThatLedToTheNoticeConfirmNothing(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Confirm)
	is(t, "avoided", o.state.AvoidHost, "reference-1")
	for range 20 {
		o.greedy(true)
	}
	is(t, "probes of the confirmation", o.state.Confirmation.Probes(), 0)
	is(t, "level", o.state.Level, ladder.Confirm)
}

func TestASecondPenaltyWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.penalized()
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: o.newest().ID, Final: standing.Executed}})
	is(t, "level after an executed penalty", o.state.Level, ladder.Notice)
	o.host = "reference-1"
	o.penalized()
	pending := o.newest()
	is(t, "needs an operator", pending.NeedsOperator, true)
	is(t, "slash before the word", pending.Effects.Slash, 0)
	is(t, "count before the word", o.world.Penalties, 1)
	o.apply(standing.Event{Operator: &standing.Approval{Verdict: pending.ID, By: "operator"}})
	v := o.newest()
	is(t, "trigger", v.Trigger, standing.Approve)
	is(t, "of", v.Of, pending.ID)
	is(t, "slash", v.Effects.Slash, ladder.NextPenalty)
	is(t, "removal", v.Effects.Remove, true)
	p, _ := o.state.OpenPenalty(standing.Misrepresentation)
	is(t, "the open penalty's verdict", p.Verdict, v.ID)
}

func TestARefusedPenaltyNeverWas(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.world.Penalties, o.world.LastPenaltyAt = 1, start.Add(-time.Hour)
	o.penalized()
	o.apply(standing.Event{Operator: &standing.Approval{Verdict: o.newest().ID, By: "operator", Refused: true}})
	v := o.newest()
	is(t, "trigger", v.Trigger, standing.Refuse)
	is(t, "count", v.Effects.Count, 0)
	is(t, "reinstate", v.Effects.Reinstate, false)
	is(t, "level", o.state.Level, ladder.Normal)
	is(t, "lane", o.state.MisrepLane, trust.Main)
}

func TestAReversedPenaltyGivesEverythingBack(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.penalized()
	convicted := o.newest()
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: convicted.ID, Final: standing.Upheld}})
	is(t, "level after upheld", o.state.Level, ladder.Penalty)
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: convicted.ID, Final: standing.Reversed}})
	v := o.newest()
	is(t, "trigger", v.Trigger, "reverse")
	is(t, "of", v.Of, convicted.ID)
	is(t, "count", v.Effects.Count, -1)
	is(t, "voids", v.Effects.VoidObservations, true)
	is(t, "reinstate without a removal", v.Effects.Reinstate, false)
	is(t, "level", o.state.Level, ladder.Normal)
	is(t, "lane", o.state.MisrepLane, trust.Main)
	is(t, "M", o.state.Process.M(), 0)
	is(t, "penalties", o.world.Penalties, 0)
	is(t, "open penalties", len(o.state.Open), 0)
}

func TestTheReversalOfARemovalReinstates(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.world.Penalties, o.world.LastPenaltyAt = 1, start.Add(-time.Hour)
	o.penalized()
	o.apply(standing.Event{Operator: &standing.Approval{Verdict: o.newest().ID, By: "operator"}})
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: o.newest().ID, Final: standing.Reversed}})
	is(t, "reinstate", o.newest().Effects.Reinstate, true)
}

func TestAPenaltyDoesNotCountAfterCleanDays(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.world.Penalties, o.world.LastPenaltyAt = 1, start
	o.wait(31 * 24 * time.Hour)
	o.tick()
	o.wait(70 * 24 * time.Hour)
	o.penalized()
	is(t, "slash", o.newest().Effects.Slash, ladder.FirstPenalty)
}

func TestPenaltiesOffAndCommonCausesHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		brakes ladder.Brakes
		held   ladder.Held
	}{
		"penalties off": {ladder.Brakes{PenaltiesOff: true}, ladder.PenaltiesOff},
		"common cause":  {ladder.Brakes{CommonCause: true}, ladder.CommonCause},
		"watch only":    {ladder.Brakes{WatchOnly: true}, ladder.WatchOnly},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := begin(t)
			o.until(ladder.Confirm)
			o.host, o.world.Brakes = "reference-2", c.brakes
			for range 30 {
				o.wait(time.Minute)
				o.greedy(true)
			}
			is(t, "level", o.state.Level, ladder.Confirm)
			is(t, "held", o.last.Held, c.held)
			o.world.Brakes = ladder.Brakes{}
			o.tick()
			is(t, "level without brakes", o.state.Level, ladder.Penalty)
		})
	}
}

func TestAnApprovalIsHeldByBrakes(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.world.Penalties, o.world.LastPenaltyAt = 1, start.Add(-time.Hour)
	o.penalized()
	approve := standing.Event{Operator: &standing.Approval{Verdict: o.newest().ID, By: "operator"}}
	o.world.Brakes.PenaltiesOff = true
	is(t, "held while penalties are off", o.apply(approve).Held, ladder.PenaltiesOff)
	o.world.Brakes = ladder.Brakes{CommonCause: true}
	is(t, "held by a common cause", o.apply(approve).Held, ladder.CommonCause)
	p, _ := o.state.OpenPenalty(standing.Misrepresentation)
	is(t, "pending", p.Pending, true)
}

func TestANoticeEndsAfterCleanProbes(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Notice)
	n := 0
	for ; o.state.Level == ladder.Notice && n < 200; n++ {
		o.wait(30 * time.Minute)
		o.greedy(false)
	}
	if n < 70 || n > 80 {
		t.Errorf("recovered after %d clean probes, want about 75", n)
	}
	is(t, "level", o.state.Level, ladder.Watch)
	is(t, "lane", o.state.MisrepLane, trust.Main)
	is(t, "trigger", o.newest().Trigger, "recover")
	o.until(ladder.Notice)
	is(t, "recovery of the next notice", o.state.Recovery.Ratio(evidence.Greedy), 1)
}

func TestASpentConfirmationPausesForSevenDays(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Confirm)
	o.host = "reference-2"
	for range evidence.MaxConfirmProbes {
		o.wait(time.Minute)
		o.greedy(false)
	}
	is(t, "level", o.state.Level, ladder.Notice)
	acquitted := o.now
	o.host = "reference-1"
	o.until(ladder.Confirm)
	if got := o.now.Sub(acquitted); got < ladder.ConfirmPause {
		t.Errorf("confirm again after %v, want at least %v", got, ladder.ConfirmPause)
	}
	is(t, "probes of the next confirmation", o.state.Confirmation.Probes(), 0)
}

func TestAnHonestOfferIsNeverNoticed(t *testing.T) {
	t.Parallel()
	years, days, seen := 3, 365, 0
	if testing.Short() {
		years, days = 1, 120
	}
	d := dice(7)
	for range years {
		o := begin(t)
		largest := 0.0
		for range days * 8 {
			o.wait(3 * time.Hour)
			exceeded := d.Float64() < .0006
			if exceeded {
				seen++
			}
			r := judgetest.Greedy(t, judgetest.Say{N: o.n, Exceeded: exceeded})
			s, out, err := o.try(standing.Event{Judged: &r})
			if err != nil {
				t.Fatalf("probe %d: %v", o.n, err)
			}
			o.keep(s, out)
			largest = max(largest, s.Process.M())
		}
		if largest > 1 {
			t.Errorf("got a largest M of %v, want at most 1", largest)
		}
		is(t, "verdicts", o.triggers(), "")
		got := o.last.Published.Factors
		if got.V < .97 {
			t.Errorf("got V %v, want at least .97", got.V)
		}
		is(t, "I", got.I, 1)
		is(t, "F", got.F, 1)
	}
	if seen == 0 {
		t.Error("no honest exceedance was among the years")
	}
}

func TestASlowCheatIsNotForgottenWhileItIsWatched(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Watch)
	m := o.state.Process.M()
	o.wait(40 * 24 * time.Hour)
	o.tick()
	is(t, "M after forty days", o.state.Process.M(), m)
}

func TestTheFreshEvidenceOfARecoveryLivesThirtyDays(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Notice)
	for range 4 {
		o.greedy(true)
	}
	for o.state.Level == ladder.Notice {
		o.wait(30 * time.Minute)
		o.greedy(false)
	}
	o.wait(ladder.CleanPeriod - time.Minute)
	o.tick()
	if got := o.state.Process.M(); got == 0 {
		t.Error("M is gone before its time")
	}
	o.wait(time.Minute)
	o.tick()
	is(t, "M after thirty clean days", o.state.Process.M(), 0)
}
