package quota

import (
	"testing"
	"time"
)

func TestBucketGivesItsBurstAndThenItsRate(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	b := NewBucket(10, 3, now)
	for n := range 3 {
		if !b.Take(now) {
			t.Fatalf("token %d of a burst of 3 is not there", n+1)
		}
	}
	if b.Take(now) {
		t.Error("a fourth token of three is there")
	}
	if got, want := b.Next(now), 100*time.Millisecond; got != want {
		t.Errorf("got the next token after %v, want %v", got, want)
	}
	now = now.Add(100 * time.Millisecond)
	if !b.Take(now) {
		t.Error("after a tenth of a second: b.Take(now): got false, want true")
	} else if b.Take(now) {
		t.Error("after a tenth of a second: b.Take(now): got true, want false")
	}
	now = now.Add(time.Hour)
	if got := b.TakeUpTo(now, 2); got != 2 {
		t.Errorf("of the 2 tokens that are asked for: got %d, want 2", got)
	}
	if got := b.TakeUpTo(now, 5); got != 1 {
		t.Errorf("got %d tokens behind an hour, want the one that is left of the burst", got)
	}
	if got := b.Next(now); got != 100*time.Millisecond {
		t.Errorf("got the next token after %v, want 100ms", got)
	}
}

func TestBucketIsNotRefilledByAClockThatGoesBack(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	b := NewBucket(1, 1, now)
	b.Take(now)
	for range 10 {
		now = now.Add(-time.Hour)
		if b.Take(now) {
			t.Fatal("a clock that goes back gives tokens")
		}
	}
}

func TestTokenThatIsGivenBackIsThereAgainAndTheBurstStays(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	b := NewBucket(1, 2, now)
	b.Take(now)
	for range 5 {
		b.GiveBack()
	}
	if got := b.TakeUpTo(now, 9); got != 2 {
		t.Errorf("got %d tokens, want the burst of 2", got)
	}
}
