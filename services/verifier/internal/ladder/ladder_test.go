package ladder_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/trust"
)

func TestOnlyTheListedStepsAreAllowed(t *testing.T) {
	t.Parallel()
	allowed := map[string]ladder.Level{
		"normal suspect":  ladder.Watch,
		"watch subside":   ladder.Normal,
		"watch notify":    ladder.Notice,
		"notice recover":  ladder.Watch,
		"notice pursue":   ladder.Confirm,
		"confirm acquit":  ladder.Notice,
		"confirm convict": ladder.Penalty,
		"penalty settle":  ladder.Notice,
		"penalty reverse": ladder.Normal,
	}
	for _, from := range append(ladder.Levels(), "", "other") {
		for _, trigger := range append(ladder.Triggers(), "", "other") {
			want, ok := allowed[fmt.Sprint(from, " ", trigger)]
			got, err := from.After(trigger)
			if got != want {
				t.Errorf("%s × %s: got %q, want %q", from, trigger, got, want)
			}
			if !ok && !errors.Is(err, ladder.ErrTransition) {
				t.Errorf("%s × %s: got the error %v, want %v", from, trigger, err, ladder.ErrTransition)
			}
		}
	}
}

// guilty are facts with which each level moves on towards a penalty.
func guilty() ladder.Facts {
	return ladder.Facts{M: 1e12, AtLevel: ladder.NoticePeriod, Hours: 3, Rank: 1, Confirmed: 1e4, Spent: 400}
}

func TestEachLevelMovesOnAtItsBound(t *testing.T) {
	t.Parallel()
	type facts = ladder.Facts
	day := 24 * time.Hour
	for _, c := range []struct {
		from ladder.Level
		f    facts
		want ladder.Trigger
		held ladder.Held
	}{
		{ladder.Normal, facts{M: 20}, ladder.Suspect, ""},
		{ladder.Normal, facts{M: 19.999}, "", ""},
		{ladder.Normal, facts{Silent: 3}, ladder.Suspect, ""},
		{ladder.Normal, facts{Silent: 2}, "", ""},
		{ladder.Watch, facts{M: 1000}, ladder.Notify, ""},
		{ladder.Watch, facts{M: 999}, "", ""},
		{ladder.Watch, facts{M: 0.9, AtLevel: day}, ladder.Subside, ""},
		{ladder.Watch, facts{M: 0.9, AtLevel: day - 1}, "", ""},
		{ladder.Watch, facts{M: 0.9, AtLevel: day, Silent: 3}, "", ""},
		{ladder.Watch, facts{M: 1, AtLevel: day}, "", ""},
		{ladder.Notice, facts{M: 2e6, AtLevel: day, Hours: 3, Rank: 1}, ladder.Pursue, ""},
		{ladder.Notice, facts{M: 2e6 - 1, AtLevel: day, Hours: 3, Rank: 1}, "", ""},
		{ladder.Notice, facts{M: 2e6, AtLevel: day, Hours: 3}, ladder.Pursue, ""},
		{ladder.Notice, facts{M: 6e6 - 1, AtLevel: day, Hours: 3, Rank: 2}, "", ""},
		{ladder.Notice, facts{M: 6e6, AtLevel: day, Hours: 3, Rank: 2}, ladder.Pursue, ""},
		{ladder.Notice, facts{M: 2e6, AtLevel: day - 1, Hours: 3, Rank: 1}, "", ladder.Waiting},
		{ladder.Notice, facts{M: 2e6, AtLevel: day, Hours: 2, Rank: 1}, "", ladder.Waiting},
		{ladder.Notice, facts{M: 2e6, AtLevel: day, Hours: 3, Tried: true, SinceConfirm: 7*day - 1}, "", ladder.Waiting},
		{ladder.Notice, facts{M: 2e6, AtLevel: day, Hours: 3, Tried: true, SinceConfirm: 7 * day}, ladder.Pursue, ""},
		{ladder.Notice, facts{Recovered: true}, ladder.Recover, ""},
		{ladder.Notice, facts{M: 1e5}, "", ""},
		{ladder.Confirm, facts{Confirmed: 1e4, Spent: 1}, ladder.Convict, ""},
		{ladder.Confirm, facts{Confirmed: 1e4, Spent: 400}, ladder.Convict, ""},
		{ladder.Confirm, facts{Confirmed: 1e4, Spent: 401}, ladder.Acquit, ""},
		{ladder.Confirm, facts{Confirmed: 9999, Spent: 400}, ladder.Acquit, ""},
		{ladder.Confirm, facts{Confirmed: 9999, Spent: 399}, "", ""},
		{ladder.Penalty, guilty(), "", ""},
		{"other", guilty(), "", ""},
		{ladder.Watch, facts{M: math.NaN(), AtLevel: day}, "", ""},
		{ladder.Confirm, facts{Confirmed: math.NaN(), Spent: 10}, "", ""},
	} {
		got := ladder.Next(c.from, c.f, ladder.DemoThresholds())
		want := ladder.Decision{Trigger: c.want, To: c.from, Held: c.held}
		if c.want != "" {
			want.To, _ = c.from.After(c.want)
		}
		if got != want {
			t.Errorf("%s with %+v: got %+v, want %+v", c.from, c.f, got, want)
		}
	}
}

func TestBrakesStopTheLadderAndSayWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from   ladder.Level
		brakes ladder.Brakes
		want   ladder.Held
	}{
		{ladder.Normal, ladder.Brakes{WatchOnly: true, PenaltiesOff: true}, ""},
		{ladder.Watch, ladder.Brakes{WatchOnly: true}, ladder.WatchOnly},
		{ladder.Notice, ladder.Brakes{WatchOnly: true}, ladder.WatchOnly},
		{ladder.Confirm, ladder.Brakes{WatchOnly: true}, ladder.WatchOnly},
		{ladder.Watch, ladder.Brakes{PenaltiesOff: true}, ""},
		{ladder.Notice, ladder.Brakes{PenaltiesOff: true}, ""},
		{ladder.Confirm, ladder.Brakes{PenaltiesOff: true}, ladder.PenaltiesOff},
		{ladder.Normal, ladder.Brakes{CommonCause: true}, ladder.CommonCause},
		{ladder.Watch, ladder.Brakes{CommonCause: true}, ladder.CommonCause},
		{ladder.Notice, ladder.Brakes{CommonCause: true}, ladder.CommonCause},
		{ladder.Confirm, ladder.Brakes{CommonCause: true, PenaltiesOff: true}, ladder.CommonCause},
	} {
		f := guilty()
		f.Brakes = c.brakes
		got := ladder.Next(c.from, f, ladder.DemoThresholds())
		if got.Held != c.want {
			t.Errorf("%s with %+v: got %q, want %q", c.from, c.brakes, got.Held, c.want)
		}
		if stays := got.To == c.from && got.Trigger == ""; stays != (c.want != "") {
			t.Errorf("%s with %+v: got %+v, want the level to stay where it is held", c.from, c.brakes, got)
		}
	}
}

func TestEffectsOfEachStep(t *testing.T) {
	t.Parallel()
	window := ladder.Cause{ContextLeads: true, MeasuredTokens: 8000}
	slowed := ladder.Effects{Rate: 48, Tell: true, ResetM: true, Lane: trust.Probe}
	for _, c := range []struct {
		trigger ladder.Trigger
		cause   ladder.Cause
		want    ladder.Effects
	}{
		{ladder.Suspect, window, ladder.Effects{Rate: 48}},
		{ladder.Subside, window, ladder.Effects{}},
		{ladder.Notify, window, ladder.Effects{Rate: 48, Tell: true, ResetM: true, CapTokens: 8000}},
		{ladder.Notify, ladder.Cause{MeasuredTokens: 8000}, slowed},
		{ladder.Notify, ladder.Cause{ContextLeads: true}, slowed},
		{ladder.Recover, window, ladder.Effects{Rate: 48, Lane: trust.Main}},
		{ladder.Pursue, window, ladder.Effects{Rate: 48, OtherHost: true}},
		{ladder.Acquit, window, ladder.Effects{Rate: 48, ResetM: true}},
		{ladder.Convict, window, ladder.Effects{Tell: true, Slash: 1000, Count: 1}},
		{ladder.Convict, ladder.Cause{Penalties: 1}, ladder.Effects{
			Tell: true, Slash: 3000, Remove: true, NeedsOperator: true, Count: 1}},
		{ladder.Settle, window, ladder.Effects{Rate: 48, ResetM: true}},
		{ladder.Reverse, window, ladder.Effects{Tell: true, Lane: trust.Main, LiftCap: true, ResetM: true,
			VoidObservations: true, Reinstate: true, Count: -1}},
		{"other", window, ladder.Effects{}},
	} {
		if got := ladder.EffectsOf(c.trigger, c.cause); got != c.want {
			t.Errorf("%s with %+v: got %+v, want %+v", c.trigger, c.cause, got, c.want)
		}
	}
	if got := ladder.CountAfter(0, -1); got != 0 {
		t.Errorf("a reversal of none: got %d, want 0", got)
	}
}

func TestTheLargestTermLeads(t *testing.T) {
	t.Parallel()
	for want, got := range map[bool][]bool{
		true: {ladder.Leads(3, 1, 2), ladder.Leads(1)},
		false: {ladder.Leads(2, 2), ladder.Leads(1, 3), ladder.Leads(0), ladder.Leads(math.NaN(), 1),
			ladder.Leads(1, math.NaN())},
	} {
		if slices.Contains(got, !want) {
			t.Errorf("got %v, want all %v", got, want)
		}
	}
}

func TestThresholdsLieWithinWhatWasSimulated(t *testing.T) {
	t.Parallel()
	if err := ladder.DemoThresholds().Check(); err != nil {
		t.Errorf("got %v, want none", err)
	}
	for _, bad := range []ladder.Thresholds{
		{14, 1000}, {31, 1000}, {20, 999}, {20, 2001}, {math.NaN(), 1000}, {20, math.NaN()},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v: got no error, want one", bad)
		}
	}
}

func TestThirtyCleanDaysAreClean(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	if got := ladder.Clean(now.Add(-ladder.CleanPeriod), now); !got {
		t.Error("30 days: got false, want true")
	}
	if got := ladder.Clean(now.Add(1-ladder.CleanPeriod), now); got {
		t.Error("a moment less: got true, want false")
	}
}

func TestTheRankFactorsShareTheBound(t *testing.T) {
	t.Parallel()
	sum := 0.0
	for j := 1; j <= 1_000_000; j++ {
		sum += 1 / ladder.RankFactor(j)
	}
	if sum > 1 {
		t.Errorf("got %v, want 1 at most and nearly", sum)
	}
	if sum < 1-1e-5 {
		t.Errorf("got %v, want 1 at most and nearly", sum)
	}
}

func TestOnlyListedBenchmarkResultsAreAllowed(t *testing.T) {
	t.Parallel()
	next := map[ladder.Run][]ladder.Run{ // pass, fail, void, expire, undo
		ladder.Unproven: {ladder.Proven, ladder.Unproven, ladder.Unproven, ladder.Unproven, ladder.Unproven},
		ladder.Proven:   {ladder.Proven, ladder.Warned, ladder.Proven, ladder.Proven, ladder.Proven},
		ladder.Warned:   {ladder.Proven, ladder.Fined, ladder.Warned, ladder.Lapsed, ladder.Warned},
		ladder.Fined:    {ladder.Proven, ladder.Removed, ladder.Fined, ladder.Lapsed, ladder.Warned},
		ladder.Removed:  {ladder.Proven, ladder.Removed, ladder.Removed, ladder.Lapsed, ladder.Fined},
		ladder.Lapsed:   {ladder.Proven, ladder.Warned, ladder.Lapsed, ladder.Lapsed, ladder.Lapsed},
	}
	for _, from := range ladder.Runs() {
		for i, result := range ladder.Results() {
			want := next[from][i]
			got, effects, _, err := ladder.AfterRun(from, result, false)
			if err != nil {
				t.Errorf("%s × %s: got the error %v, want none", from, result, err)
			}
			if got != want {
				t.Errorf("%s × %s: got %q, want %q", from, result, got, want)
			}
			if effects.Lane != want.Lane() {
				t.Errorf("%s × %s: got the lane %q, want that of %s, %q", from, result, effects.Lane, want, want.Lane())
			}
			if undone := result == ladder.Undo; effects.Reinstate != undone {
				t.Errorf("%s × %s: got reinstate %v, want %v", from, result, effects.Reinstate, undone)
			}
			slash := ladder.BasisPoints(0)
			if result == ladder.Fail {
				slash = map[ladder.Run]ladder.BasisPoints{ladder.Warned: 1000, ladder.Fined: 3000}[from]
			}
			if effects.Slash != slash {
				t.Errorf("%s × %s: got %+v, want a slash of %d", from, result, effects, slash)
			}
			if effects.Remove != (slash == 3000) {
				t.Errorf("%s × %s: got %+v, want a slash of %d", from, result, effects, slash)
			}
			if got.Routed() != (got == ladder.Proven) {
				t.Errorf("%s: got routed %v, want only proven ones routed", got, got.Routed())
			}
		}
	}
	for from, result := range map[ladder.Run]ladder.Result{"other": ladder.Pass, ladder.Proven: "other"} {
		if _, _, _, err := ladder.AfterRun(from, result, false); !errors.Is(err, ladder.ErrTransition) {
			t.Errorf("%s × %s: got %v, want %v", from, result, err, ladder.ErrTransition)
		}
	}
}

func TestWithoutPenaltiesNobodyIsFined(t *testing.T) {
	t.Parallel()
	for _, from := range ladder.Runs() {
		got, effects, held, err := ladder.AfterRun(from, ladder.Fail, true)
		if err != nil {
			t.Errorf("%s: got %+v and the error %v, want a warning", from, effects, err)
		}
		if effects.Slash != 0 {
			t.Errorf("%s: got %+v and the error %v, want a warning", from, effects, err)
		}
		if effects.Remove {
			t.Errorf("%s: got %+v and the error %v, want a warning", from, effects, err)
		}
		if effects.Lane != trust.Shut {
			t.Errorf("%s: got the lane %q, want %q", from, effects.Lane, trust.Shut)
		}
		want := ladder.NotHeld
		if from == ladder.Warned || from == ladder.Fined {
			want = ladder.PenaltiesOff
		}
		if held != want {
			t.Errorf("%s: got %s held by %q, want %q", from, got, held, want)
		}
		if want != "" && got != from {
			t.Errorf("%s: got %s held by %q, want %q", from, got, held, want)
		}
	}
}

func TestFailedBenchmarksRunOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	for _, r := range ladder.Runs() {
		if !ladder.MayRun(r, "", false, 0) {
			t.Errorf("%s: the first: got false, want true", r)
		}
		for _, last := range []ladder.Result{ladder.Pass, ladder.Fail, ladder.Spoiled} {
			if ladder.MayRun(r, last, true, time.Hour-1) {
				t.Errorf("%s after %s: asked too soon: got true, want false", r, last)
			}
			if !ladder.MayRun(r, last, true, time.Hour) {
				t.Errorf("%s after %s: asked: got false, want true", r, last)
			}
		}
		if got, want := ladder.MayRun(r, ladder.Fail, false, 1e18), r == ladder.Proven; got != want {
			t.Errorf("%s: unasked: got %v, want %v", r, got, want)
		}
	}
}

// The platform failed and not the provider. A row of failures would not move on by itself.
func TestAVoidRunIsRepeatedUnaskedWhereNoFailureCounts(t *testing.T) {
	t.Parallel()
	for _, r := range ladder.Runs() {
		want := r == ladder.Unproven || r == ladder.Proven
		if got := ladder.MayRun(r, ladder.Spoiled, false, time.Hour); got != want {
			t.Errorf("%s after a void run: got %v, want %v", r, got, want)
		}
	}
	if ladder.MayRun(ladder.Unproven, ladder.Spoiled, false, time.Hour-1) {
		t.Error("less than an hour after a void run: got true, want false")
	}
}

// No sequence of facts slashes without passing notice and confirm, and decisions are known
// to the letter.
func TestDecisionsAreFunctionsOfTheirInputs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(71, 71))
	h := sha256.New()
	level, confirmed := ladder.Normal, false
	for range 50_000 {
		f := ladder.Facts{
			M: []float64{0, 0.5, 20, 1000, 1e6, 1e7}[r.IntN(6)], AtLevel: time.Duration(r.IntN(48)) * time.Hour,
			Hours: r.IntN(6), Rank: r.IntN(3), Tried: r.IntN(2) == 0,
			SinceConfirm: time.Duration(r.IntN(20)) * 24 * time.Hour, Confirmed: float64(r.IntN(12_000)), Spent: r.IntN(420),
			Recovered: r.IntN(11) == 0, Silent: r.IntN(4),
			Brakes: ladder.Brakes{CommonCause: r.IntN(9) == 0, WatchOnly: r.IntN(9) == 0, PenaltiesOff: r.IntN(9) == 0},
		}
		d := ladder.Next(level, f, ladder.DemoThresholds())
		if again := ladder.Next(level, f, ladder.DemoThresholds()); again != d {
			t.Fatalf("got %+v, then %+v, want the same", d, again)
		}
		if d.Trigger == ladder.Convict && !confirmed {
			t.Fatalf("a penalty of %s without a confirmation, with %+v", level, f)
		}
		if d.Trigger == ladder.Convict && f.Brakes != (ladder.Brakes{}) {
			t.Fatalf("a penalty of %s under brakes, with %+v", level, f)
		}
		confirmed = d.To == ladder.Confirm
		if level = d.To; level == ladder.Penalty {
			level, _ = level.After([]ladder.Trigger{ladder.Settle, ladder.Reverse}[r.IntN(2)])
		}
		fmt.Fprintln(h, d, level)
	}
	const want = "6cc20724ad64206ff505598ed10d418884caeabe63b56c83063e2765225eb19b"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
