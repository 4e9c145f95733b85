package clock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
)

func TestSleepWaitsForTheTimeOrTheEndOfTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		until, want time.Duration
		err         error
	}{
		"the time comes first":     {until: 3 * time.Minute, want: time.Minute},
		"the context ends first":   {until: time.Second, want: time.Second, err: context.DeadlineExceeded},
		"the context ended before": {until: 0, want: 0, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.until)
				defer cancel()
				if err := clock.Sleep(ctx, time.Minute); !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				if got := time.Since(began); got != c.want {
					t.Errorf("got a wait of %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestEveryYieldsAtEachIntervalUntilTheEndOfTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		until, works time.Duration
		stopAfter    int
		want         []time.Duration
	}{
		"until the context ends":   {until: 3*time.Second + 1, want: []time.Duration{1, 2, 3}},
		"until the caller leaves":  {until: time.Hour, stopAfter: 2, want: []time.Duration{1, 2}},
		"a slow caller misses one": {until: 5 * time.Second, works: 2500 * time.Millisecond, want: []time.Duration{1, 3}},
		"the context had ended":    {until: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.until)
				defer cancel()
				var got []time.Duration
				for range clock.Every(ctx, time.Second) {
					got = append(got, time.Since(began)/time.Second)
					if clock.Sleep(ctx, c.works) != nil || len(got) == c.stopAfter {
						break
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got seconds %d, want %d", got, c.want)
				}
			})
		})
	}
}

// A look that failed is no look: the next tick looks again, and no look is left out before one succeeds.
func TestALookThatFailedIsMadeAgainAtTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var looked bool
		still := clock.NewStill(func(context.Context) bool {
			was := looked
			looked = true
			return was
		}, func() { looked = false })
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second+1)
		defer cancel()
		var got []time.Duration
		for range clock.EveryUnless(ctx, time.Second, still) {
			got = append(got, time.Since(began)/time.Second)
			if len(got) < 3 {
				_ = still.Learn(errors.New("the database is away"))
			}
		}
		if want := []time.Duration{1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("looks at seconds: got %d, want %d", got, want)
		}
	})
}

func TestALoopWithoutAStillLooksAtEachTick(t *testing.T) {
	var none *clock.Still
	if none.Holds(t.Context()) {
		t.Error("a look is left out")
	}
	want := errors.New("it failed")
	if got := none.Learn(want); !errors.Is(got, want) {
		t.Errorf("the outcome: got %v, want %v", got, want)
	}
}

func TestBothLeaveOutWhatEachLeavesOut(t *testing.T) {
	failed := 0
	fixed := func(holds bool) *clock.Still {
		return clock.NewStill(func(context.Context) bool { return holds }, func() { failed++ })
	}
	for _, a := range []bool{false, true} {
		for _, b := range []bool{false, true} {
			if got := clock.Both(fixed(a), fixed(b)).Holds(t.Context()); got != (a && b) {
				t.Errorf("%v and %v: got %v, want %v", a, b, got, a && b)
			}
		}
	}
	if clock.Both(fixed(true), nil).Holds(t.Context()) {
		t.Error("a look is left out that one has made")
	}
	_ = clock.Both(fixed(true), fixed(true)).Learn(errors.New("it failed"))
	if failed != 2 {
		t.Errorf("those that learn of a failure: got %d, want 2", failed)
	}
}

func TestAWakeIsNotLeftOut(t *testing.T) {
	still := clock.NewStill(func(context.Context) bool { return true }, nil)
	ticks, wake := make(chan time.Time, 1), make(chan struct{}, 1)
	wake <- struct{}{}
	if !clock.Next(t.Context(), ticks, wake, still) {
		t.Error("a wake: got the end, want a look")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ticks <- time.Time{}
	if clock.Next(ctx, ticks, wake, still) {
		t.Error("a tick at which nothing is to be found: got a look, want none")
	}
}

func TestLoopsOfAnIntervalTickTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		ticks := make(chan []time.Duration)
		for _, late := range []time.Duration{0, 300 * time.Millisecond, 1700 * time.Millisecond} {
			go func() {
				var at []time.Duration
				if clock.Sleep(ctx, late) == nil {
					for range clock.Every(ctx, time.Second) {
						at = append(at, time.Since(began))
					}
				}
				ticks <- at
			}()
		}
		for range 3 {
			all := <-ticks
			if len(all) == 0 {
				t.Error("a loop: got no tick, want some")
			}
			for _, at := range all {
				if at%time.Second != 0 {
					t.Errorf("a tick of a second: got %v after the first second began, want a whole number", at)
				}
			}
		}
	})
}

func TestTheNextTickIsAheadAndWithinTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ after, want time.Duration }{
			{0, time.Second}, {1, time.Second - 1}, {time.Second - 2, 1}, {1, time.Second},
		} {
			_ = clock.Sleep(t.Context(), c.after)
			if got := clock.ToTick(time.Second); got != c.want {
				t.Errorf("the time to the next tick: got %v, want %v", got, c.want)
			}
		}
	})
}

func TestAProcessThatSpreadsKeepsItsInterval(t *testing.T) {
	t.Cleanup(clock.InPhase)
	clock.Spread()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var last time.Time
		ticks := 0
		for now := range clock.Every(ctx, time.Second) {
			if !last.IsZero() && now.Sub(last) != time.Second {
				t.Errorf("two ticks: got %v between them, want 1s", now.Sub(last))
			}
			last = now
			ticks++
		}
		if ticks < 9 {
			t.Errorf("ticks in 10 s: got %d, want 9 or more", ticks)
		}
	})
}

func TestALookIsLeftOutWithinAMinute(t *testing.T) {
	c := clock.NewManual(time.Date(2026, 12, 1, 9, 30, 10, 0, time.UTC))
	still := clock.WithinMinute(c)
	for _, step := range []struct {
		by   time.Duration
		want bool
	}{{0, false}, {49 * time.Second, true}, {time.Second, false}, {-time.Hour, false}, {time.Second, true}} {
		c.Advance(step.by)
		if got := still.Holds(t.Context()); got != step.want {
			t.Errorf("at %v: got %v, want %v", c.Now(), got, step.want)
		}
	}
}
