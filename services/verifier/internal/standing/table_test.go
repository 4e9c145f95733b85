package standing_test

import (
	"errors"
	"slices"
	"testing"

	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

// at brings an offer to a level.
func at(t *testing.T, level ladder.Level) *offer {
	t.Helper()
	o := begin(t)
	o.run(judgetest.Passing())
	if level == ladder.Penalty {
		o.penalized()
		return o
	}
	o.until(level)
	return o
}

// TestEveryLevelTakesItsEventsAndNoOthers is the table of what each event does at each
// level: the level behind it, "" where the event is refused.
func TestEveryLevelTakesItsEventsAndNoOthers(t *testing.T) {
	t.Parallel()
	const refused = ladder.Level("")
	levels := []ladder.Level{ladder.Normal, ladder.Watch, ladder.Notice, ladder.Confirm, ladder.Penalty}
	open := func(o *offer, final standing.Final) standing.Event {
		p, _ := o.state.OpenPenalty(standing.Misrepresentation)
		return standing.Event{Penalty: &standing.PenaltyMoved{Verdict: p.Verdict, Final: final}}
	}
	for name, c := range map[string]struct {
		event func(*offer) standing.Event
		to    [5]ladder.Level
	}{
		"a clean probe": {func(o *offer) standing.Event {
			r := judgetest.Greedy(t, judgetest.Say{N: o.n, Host: o.host})
			return standing.Event{Judged: &r}
		}, [5]ladder.Level(levels)},
		"time": {func(*offer) standing.Event { return standing.Event{Ticked: &standing.Tick{}} }, [5]ladder.Level(levels)},
		"a pair": {func(*offer) standing.Event { return standing.Event{Paired: &standing.Pair{OrganicFailed: true}} },
			[5]ladder.Level(levels)},
		"a failed benchmark": {func(*offer) standing.Event {
			return standing.Event{Run: &standing.RunJudged{Facts: other()}}
		}, [5]ladder.Level(levels)},
		"a passed benchmark": {func(*offer) standing.Event {
			return standing.Event{Run: &standing.RunJudged{Facts: judgetest.Passing()}}
		}, [5]ladder.Level(levels)},
		"executed": {func(o *offer) standing.Event { return open(o, standing.Executed) },
			[5]ladder.Level{refused, refused, refused, refused, ladder.Notice}},
		"upheld": {func(o *offer) standing.Event { return open(o, standing.Upheld) },
			[5]ladder.Level{refused, refused, refused, refused, ladder.Penalty}},
		"reversed": {func(o *offer) standing.Event { return open(o, standing.Reversed) },
			[5]ladder.Level{refused, refused, refused, refused, ladder.Normal}},
		"unknown word": {func(o *offer) standing.Event { return open(o, "appealed") },
			[5]ladder.Level{refused, refused, refused, refused, refused}},
		"approved": {func(o *offer) standing.Event {
			p, _ := o.state.OpenPenalty(standing.Misrepresentation)
			return standing.Event{Operator: &standing.Approval{Verdict: p.Verdict, By: "operator"}}
		}, [5]ladder.Level{refused, refused, refused, refused, refused}},
		"all is void": {func(*offer) standing.Event {
			return standing.Event{Voided: &standing.Voiding{By: "operator", Since: start}}
		}, [5]ladder.Level{ladder.Normal, ladder.Watch, ladder.Normal, ladder.Normal, ladder.Penalty}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, level := range levels {
				o := at(t, level)
				s, _, err := o.try(c.event(o))
				switch {
				case c.to[i] != refused:
					if err != nil {
						t.Errorf("at %s: got %v, want none", level, err)
					}
					is(t, "from "+string(level), s.Level, c.to[i])
				case !errors.Is(err, standing.ErrEvent):
					t.Errorf("at %s: got %v, want %v", level, err, standing.ErrEvent)
				}
			}
		})
	}
}

// TestNoEventLiftsWhatAnotherLadderHolds plays what speaks for a provider at each level: the
// lane of the other ladder stays.
func TestNoEventLiftsWhatAnotherLadderHolds(t *testing.T) {
	t.Parallel()
	for _, level := range []ladder.Level{ladder.Notice, ladder.Confirm, ladder.Penalty} {
		o := at(t, level)
		o.run(judgetest.Passing())
		is(t, "lane after a passed benchmark at "+string(level), o.last.Published.Lane, trust.Probe)
	}
	o := begin(t)
	o.run(judgetest.Passing())
	o.run(other())
	o.penalized()
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: o.newest().ID, Final: standing.Reversed}})
	is(t, "lane of a failed benchmark after a reversal", o.last.Published.Lane, trust.Shut)
	if !slices.Contains([]ladder.Run{ladder.Warned, ladder.Fined}, o.state.Run) {
		t.Errorf("got the standing %s, want that of the failed benchmark", o.state.Run)
	}
}

// TestAReversalLeavesTheCleanDaysAsTheyWere compares careers with and without a penalty that was
// reversed.
func TestAReversalLeavesTheCleanDaysAsTheyWere(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.penalized()
	o.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: o.newest().ID, Final: standing.Reversed}})
	is(t, "unclean", o.state.UncleanAt.IsZero(), true)
	failed := begin(t)
	failed.until(ladder.Notice)
	failed.run(other())
	at := failed.now
	failed.penalized()
	failed.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: failed.newest().ID, Final: standing.Reversed}})
	is(t, "unclean by a benchmark", failed.state.UncleanAt, at)
}
