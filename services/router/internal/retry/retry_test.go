package retry

import (
	"testing"
	"time"

	"svc.internal/services/router/internal/tag"
)

// start is the first second of a minute.
var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestTheSixtiethFailureWithinAMinuteEndsRetriesOfItsAccountAlone(t *testing.T) {
	var b Budget
	for i := range PerMinute {
		if b.Spent(1, start) {
			t.Fatalf("got spent after %d failures, want %d", i, PerMinute)
		}
		b.Failed(1, start)
	}
	if !b.Spent(1, start) {
		t.Errorf("got retries after %d failures within a minute, want none", PerMinute)
	}
	if b.Spent(2, start) {
		t.Error("got no retries for an account that failed nothing, want retries")
	}
}

func TestRetriesReturnWhenFewerHaveFailedWithinAMinute(t *testing.T) {
	var b Budget
	for range PerMinute {
		b.Failed(1, start.Add(59*time.Second))
	}
	if !b.Spent(1, start.Add(60*time.Second)) {
		t.Error("got retries a second after the last failure, want none: a minute ends for nobody at its full minute")
	}
	if b.Spent(1, start.Add(2*time.Minute)) {
		t.Error("got no retries a minute after the last failure, want retries")
	}
}

func TestAnEvenRateBelowTheBoundKeepsItsRetriesAndOneAboveLosesThem(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		spent    bool
	}{{1100 * time.Millisecond, false}, {900 * time.Millisecond, true}} {
		var b Budget
		spent := false
		for at := time.Duration(0); at < 5*time.Minute; at += c.interval {
			b.Failed(1, start.Add(at))
			spent = spent || b.Spent(1, start.Add(at))
		}
		if spent != c.spent {
			t.Errorf("a failure every %v: got spent %v, want %v", c.interval, spent, c.spent)
		}
	}
}

func TestAccountsThatAreNotKnownShareNoCount(t *testing.T) {
	var b Budget
	for range 10 * PerMinute {
		b.Failed(0, start)
	}
	if b.Spent(0, start) || b.Len() != 0 {
		t.Errorf("got spent %v and %d counted, want retries and none", b.Spent(0, start), b.Len())
	}
}

func TestAFullBudgetCountsNobodyNewAndForgetsTheIdle(t *testing.T) {
	var b Budget
	for i := range MaxAccounts + 10 {
		b.Failed(tag.Account(i+1), start)
	}
	if b.Len() != MaxAccounts {
		t.Errorf("got %d accounts, want %d", b.Len(), MaxAccounts)
	}
	b.Trim(start.Add(time.Minute))
	if b.Len() != MaxAccounts {
		t.Errorf("got %d accounts after a minute, want %d: what failed may still count", b.Len(), MaxAccounts)
	}
	b.Trim(start.Add(2 * time.Minute))
	if b.Len() != 0 {
		t.Errorf("got %d accounts after two minutes, want 0", b.Len())
	}
}
