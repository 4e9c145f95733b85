package console

import (
	"strings"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

var day = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func TestHiddenProbesAreShownOnceTheirDayHasBeenOverForADay(t *testing.T) {
	t.Parallel()
	tally := Tally{Model: "m", Kind: probe.Greedy, Day: day.Add(23 * time.Hour), Probes: 1, Counted: 1}
	end := day.Add(48 * time.Hour)
	if _, got := OfTally(tally, end.Add(-time.Nanosecond)); got {
		t.Error("a moment before: got it, want nothing")
	}
	c, got := OfTally(tally, end)
	if !got {
		t.Fatal("then: got nothing, want it")
	}
	if want := (Challenge{Model: "m", Flow: probe.Hidden, Kind: probe.Greedy, At: day, Result: Counted}); c != want {
		t.Errorf("got %v, want %v", c, want)
	}
	if got := ShownBefore(end); !got.Equal(day.Add(24 * time.Hour)) {
		t.Errorf("shown before: got %v, want %v", got, day.Add(24*time.Hour))
	}
	if got := ShownBefore(end.Add(-time.Nanosecond)); !got.Equal(day) {
		t.Errorf("a moment before: got %v, want %v", got, day)
	}
}

// Who fails one request on purpose, or one in three, reads nothing about it.
func TestOnlyAMajorityOfADayIsShownAsVoid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		probes, counted int
		want            Result
	}{{8, 7, Counted}, {3, 2, Counted}, {2, 1, Counted}, {1, 1, Counted}, {3, 1, Void}, {8, 0, Void}} {
		got, _ := OfTally(Tally{Day: day, Probes: c.probes, Counted: c.counted}, day.Add(72*time.Hour))
		if got.Result != c.want {
			t.Errorf("%d of %d counted: got %q, want %q", c.counted, c.probes, got.Result, c.want)
		}
	}
}

func TestAWatchIsShownAsNothing(t *testing.T) {
	t.Parallel()
	s := standing.New(day)
	p := standing.Published{Lane: trust.Main, Proven: true, PassedAt: day}
	s.Run = ladder.Proven
	normal := OwnOf("m", s, p)
	s.Level, s.Since = ladder.Watch, day.Add(time.Hour)
	if watched := OwnOf("m", s, p); watched != normal {
		t.Errorf("watched: got %+v, want %+v", watched, normal)
	}
}

func TestANoticeIsShownWithKindTimeAndNextStep(t *testing.T) {
	t.Parallel()
	s := standing.New(day)
	s.Level, s.Led, s.NoticedAt = ladder.Notice, evidence.Recall, day.Add(time.Hour)
	own := OwnOf("m", s, standing.Published{Lane: trust.Main, CapTokens: 2048})
	for what, c := range map[string][2]string{
		"standing": {own.Standing, "notice"}, "kind": {own.Kind, evidence.Recall.String()},
		"since": {own.Since.String(), s.NoticedAt.String()},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: got %q, want %q", what, c[0], c[1])
		}
	}
	if !strings.Contains(own.NextStep, "context window") {
		t.Errorf("next step: got %q, want what to do about the context window", own.NextStep)
	}
	s.Level = ladder.Confirm
	if got := OwnOf("m", s, standing.Published{Lane: trust.Main, CapTokens: 2048}); got != own {
		t.Errorf("in confirm: got %+v, want the same as in notice: %+v", got, own)
	}
}

// The provider reads why few requests come, and what ends it.
func TestAnOfferThatNobodyCanJudgeIsShownWithItsReason(t *testing.T) {
	t.Parallel()
	own := OwnOf("m", unjudged(t), standing.Published{Lane: trust.Probe, Proven: true, PassedAt: day})
	if own.LaneReason != standing.ReasonUnjudged {
		t.Errorf("reason: got %q, want %q", own.LaneReason, standing.ReasonUnjudged)
	}
	if own.Standing != "none" {
		t.Errorf("standing: got %q, want none", own.Standing)
	}
	if !strings.Contains(own.NextStep, "as the engine writes it") {
		t.Errorf("next step: got %q, want what to do about the answers", own.NextStep)
	}
}

// unjudged is the state of an offer that sends blanks alone.
func unjudged(t *testing.T) standing.State {
	t.Helper()
	s := standing.New(day)
	s.Run, s.PassedAt, s.BenchLane = ladder.Proven, day, trust.Main
	w := standing.World{Offer: judgetest.Offer, Limits: ladder.DemoThresholds(), Rank: 1, Key: "a probe"}
	for n := range standing.UnjudgedVoids {
		r := judgetest.Greedy(t, judgetest.Say{N: n})
		r.Answer.Raw = []byte(`{"choices":[{"message":{"content":" "},"finish_reason":"stop"}]}`)
		next, _, err := s.Apply(standing.Event{Judged: &r}, day, w)
		if err != nil {
			t.Fatalf("judge a probe: %v", err)
		}
		s = next
	}
	return s
}

// A penalty that waits for an operator is not one yet.
func TestAPenaltyIsShownOnceItIsOpen(t *testing.T) {
	t.Parallel()
	s := standing.New(day)
	id := probe.VerdictID{15: 7}
	s.Level = ladder.Penalty
	s.Open = []standing.Penalty{{Verdict: id, Kind: standing.Misrepresentation, Pending: true}}
	if got := OwnOf("m", s, standing.Published{}).Penalty; !got.IsZero() {
		t.Errorf("while it waits: got %v, want none", got)
	}
	s.Open[0].Pending = false
	if got := OwnOf("m", s, standing.Published{}).Penalty; got != id {
		t.Errorf("once it is open: got %v, want %v", got, id)
	}
}

// What a visible challenge found is not shown, but for files.
func TestAVisibleChallengeTellsOfFilesAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind           probe.Kind
		done, exceeded bool
		want           Result
	}{
		{probe.Greedy, true, true, Counted}, {probe.Greedy, true, false, Counted}, {probe.Greedy, false, false, Void},
		{probe.Fingerprint, true, true, Differs}, {probe.Fingerprint, true, false, Counted},
	} {
		if got := OfVisible(Visible{Kind: c.kind, Done: c.done, Exceeded: c.exceeded}).Result; got != c.want {
			t.Errorf("%s done %t exceeded %t: got %q, want %q", c.kind, c.done, c.exceeded, got, c.want)
		}
	}
}
