package standing_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

func TestTwoWrongFingerprintsADayApartAreOneObservation(t *testing.T) {
	t.Parallel()
	o := begin(t)
	wrong := func() {
		o.judged(judgetest.Fingerprint(t, judgetest.Say{N: o.n, Exceeded: true}))
	}
	wrong()
	is(t, "M of files after one", o.state.Process.Of(evidence.Files), 0)
	o.wait(23 * time.Hour)
	wrong()
	is(t, "M of files within a day", o.state.Process.Of(evidence.Files), 0)
	o.wait(time.Hour)
	wrong()
	after := o.state.Process.Of(evidence.Files)
	if after == 0 {
		t.Error("M of files has not moved after a day")
	}
	wrong()
	is(t, "M of files after a third", o.state.Process.Of(evidence.Files), after)
}

func TestARightFingerprintEndsAWrongOne(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.judged(judgetest.Fingerprint(t, judgetest.Say{N: o.n, Exceeded: true}))
	o.judged(judgetest.Fingerprint(t, judgetest.Say{N: o.n}))
	is(t, "a wrong one waits", o.state.FilesWrongAt.IsZero(), true)
}

func TestThreeSilentAnswersInADayBeginAWatch(t *testing.T) {
	t.Parallel()
	o := begin(t)
	for range 2 {
		o.judged(judgetest.Silent(t, judgetest.Say{N: o.n}))
		o.wait(25 * time.Hour)
	}
	is(t, "level after two old ones", o.state.Level, ladder.Normal)
	for range 3 {
		o.judged(judgetest.Silent(t, judgetest.Say{N: o.n}))
	}
	is(t, "level after three", o.state.Level, ladder.Watch)
	o.wait(24 * time.Hour)
	o.tick()
	is(t, "level a day later", o.state.Level, ladder.Normal)
}

func TestVoidedObservationsTakeBackTheNoticeThatTheyLedTo(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.run(judgetest.Passing())
	good := o.now
	o.until(ladder.Notice)
	o.greedy(true)
	o.apply(standing.Event{Voided: &standing.Voiding{By: "common cause", Since: good}})
	is(t, "level", o.state.Level, ladder.Normal)
	is(t, "M", o.state.Process.M(), 0)
	is(t, "lane", o.last.Published.Lane, trust.Main)
	is(t, "trigger", o.newest().Trigger, standing.Withdraw)
}

func TestVoidedObservationsLeaveAnOlderNotice(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Notice)
	o.wait(time.Hour)
	since := o.now
	o.greedy(true)
	o.apply(standing.Event{Voided: &standing.Voiding{By: "operator", Since: since}})
	is(t, "level", o.state.Level, ladder.Notice)
	is(t, "M", o.state.Process.M(), 0)
	is(t, "hours", len(o.state.Hours), 0)
}

func TestAVoidingLeavesAPenaltyToItsAppeal(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.penalized()
	o.apply(standing.Event{Voided: &standing.Voiding{By: "operator", Since: start}})
	is(t, "level", o.state.Level, ladder.Penalty)
	is(t, "open penalties", len(o.state.Open), 1)
}

func TestFailedPairsLowerTrustAndNothingElse(t *testing.T) {
	t.Parallel()
	o := begin(t)
	for range 28 {
		o.apply(standing.Event{Paired: &standing.Pair{OrganicFailed: true}})
	}
	is(t, "F", o.last.Published.Factors.F, .05)
	is(t, "level", o.state.Level, ladder.Normal)
	is(t, "M", o.state.Process.M(), 0)
}

func TestTrustIsHighFromTheEightiethPassedObservation(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.recall(false)
	for range 39 {
		is(t, "high too early", o.last.Published.Factors.High(), false)
		o.greedy(false) // B and U
	}
	o.greedy(false)
	if got := o.last.Published.Trust; got < trust.HighFrom {
		t.Errorf("got trust %v, want at least %v", got, trust.HighFrom)
	}
}

func TestGraceEndsSevenDaysAfterActivation(t *testing.T) {
	t.Parallel()
	o := begin(t)
	is(t, "grace until", o.tick().Published.GraceUntil, start.Add(standing.Grace))
	o.wait(standing.Grace)
	is(t, "grace is over", o.tick().Published.GraceUntil.IsZero(), true)
	o.world.ActiveSince = time.Time{}
	is(t, "grace without activation", o.tick().Published.GraceUntil.IsZero(), true)
}

func TestTheLastObservationsAreCountedForTheGuard(t *testing.T) {
	t.Parallel()
	o := begin(t)
	for n := range 120 { // two families each
		o.greedy(n == 50 || n == 119)
	}
	n, full := o.state.Last.Exceeded()
	is(t, "exceeded", n, 2)
	is(t, "full", full, true)
	for range 40 {
		o.greedy(false)
	}
	n, _ = o.state.Last.Exceeded()
	is(t, "exceeded later", n, 1)
}

func TestAnEventTriedAgainGivesTheSameVerdict(t *testing.T) {
	t.Parallel()
	o := begin(t)
	e := standing.Event{Run: &standing.RunJudged{Facts: judgetest.Passing()}}
	_, first, err := o.try(e)
	if err != nil {
		t.Fatalf("the run: %v", err)
	}
	o.n--
	_, again, err := o.try(e)
	if err != nil {
		t.Fatalf("the run again: %v", err)
	}
	is(t, "id", again.Verdicts[0].ID, first.Verdicts[0].ID)
	is(t, "version", first.Verdicts[0].ID[6]>>4, 7)
	is(t, "time", first.Verdicts[0].ID.Time(), o.now)
	_, other, err := o.try(e)
	if err != nil {
		t.Fatalf("another run: %v", err)
	}
	is(t, "the id of another event is the same", other.Verdicts[0].ID == first.Verdicts[0].ID, false)
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	of := func(r judge.Record) standing.Event { return standing.Event{Judged: &r} }
	another := judgetest.Greedy(t, judgetest.Say{})
	another.Plan.Offer.Provider = ids.ProviderID{2}
	calibration := judgetest.Greedy(t, judgetest.Say{})
	calibration.Plan.Purpose = probe.Calibration
	for name, e := range map[string]standing.Event{
		"nothing":            {},
		"two things":         {Ticked: &standing.Tick{}, Asked: &standing.Ask{}},
		"another offer":      of(another),
		"a calibration":      of(calibration),
		"no open penalty":    {Penalty: &standing.PenaltyMoved{Verdict: probe.VerdictID{1}, Final: standing.Executed}},
		"no pending penalty": {Operator: &standing.Approval{Verdict: probe.VerdictID{1}, By: "operator"}},
		"nobody approves":    {Operator: &standing.Approval{Verdict: probe.VerdictID{1}}},
		"nobody voids":       {Voided: &standing.Voiding{Since: start}},
		"the future is void": {Voided: &standing.Voiding{By: "operator", Since: start.Add(time.Hour)}},
		"no time is void":    {Voided: &standing.Voiding{By: "operator"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := begin(t)
			before := o.form(o.state)
			s, _, err := o.try(e)
			if !errors.Is(err, standing.ErrEvent) {
				t.Errorf("got %v, want %v", err, standing.ErrEvent)
			}
			if !bytes.Equal(o.form(s), before) {
				t.Error("a refused event moved the state")
			}
		})
	}
}

func TestAWorldInWhichNothingCanBeDecidedIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*standing.World){
		"no offer":   func(w *standing.World) { w.Offer = probe.Offer{} },
		"thresholds": func(w *standing.World) { w.Limits.Notice = 10 },
		"rank":       func(w *standing.World) { w.Rank = 0 },
		"penalties":  func(w *standing.World) { w.Penalties = -1 },
		"tokens":     func(w *standing.World) { w.StatedTokens = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := begin(t)
			change(&o.world)
			if _, _, err := o.try(standing.Event{Ticked: &standing.Tick{}}); !errors.Is(err, standing.ErrEvent) {
				t.Errorf("got %v, want %v", err, standing.ErrEvent)
			}
		})
	}
}

func TestAPendingPenaltyIsNotSettlements(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.world.Penalties, o.world.LastPenaltyAt = 1, start.Add(-time.Hour)
	o.penalized()
	moved := standing.Event{Penalty: &standing.PenaltyMoved{Verdict: o.newest().ID, Final: standing.Executed}}
	if _, _, err := o.try(moved); !errors.Is(err, standing.ErrEvent) {
		t.Errorf("got %v, want %v", err, standing.ErrEvent)
	}
}

func TestAClockThatIsSetBackEndsNoWaiting(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Notice)
	o.wait(-48 * time.Hour)
	for range 12 {
		o.greedy(true)
		o.wait(30 * time.Minute)
	}
	is(t, "hours with b = 1", len(o.state.Hours), ladder.PenaltyHours)
	is(t, "level", o.state.Level, ladder.Notice)
}
