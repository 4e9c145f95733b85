package standing

import (
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
)

func TestAFamilyThatHasHadItsYearMovesNothing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	s := New(now)
	for range evidence.Horizon {
		s.Taken.add(evidence.Greedy, now)
	}
	if got := s.Taken.Year(now); got != evidence.Horizon {
		t.Errorf("got %d observations of the year, want %d", got, evidence.Horizon)
	}
	r := judgetest.Greedy(t, judgetest.Say{Exceeded: true})
	w := World{Offer: judgetest.Offer, Key: "probe", Limits: ladder.DemoThresholds(), Rank: 1}
	after, _, err := s.Apply(Event{Judged: &r}, now, w)
	if err != nil {
		t.Fatalf("judge: %v", err)
	}
	if got := after.Process.Of(evidence.Greedy); got != 0 {
		t.Errorf("got M of B %v, want 0", got)
	}
	if got := after.Process.Of(evidence.Usage); got == 0 {
		t.Error("U has not moved, although its year is not over")
	}
	year := 54 * 7 * 24 * time.Hour
	if after, _, err = s.Apply(Event{Judged: &r}, now.Add(year), w); err != nil {
		t.Fatalf("judge a year later: %v", err)
	}
	if got := after.Process.Of(evidence.Greedy); got == 0 {
		t.Error("B has not moved a year later")
	}
}

func TestObservationsAreCountedForAtLeastAYear(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	for days := range 7 {
		now := first.AddDate(0, 0, days)
		var k Taken
		k.add(evidence.Recall, now)
		if got := k.Year(now.AddDate(0, 0, 365)); got != 1 {
			t.Errorf("from day %d: got %d after 365 days, want 1", days, got)
		}
		if got := k.Year(now.AddDate(0, 0, 54*7)); got != 0 {
			t.Errorf("from day %d: got %d after 54 weeks, want 0", days, got)
		}
	}
}
