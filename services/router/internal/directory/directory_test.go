package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// asked counts the questions and answers with exists.
type asked struct {
	exists map[string]bool
	err    error
	count  int
}

func (a *asked) ask(_ context.Context, provider string) (bool, error) {
	a.count++
	return a.exists[provider], a.err
}

func TestAnswersAreRememberedForTheirTime(t *testing.T) {
	a, c := &asked{exists: map[string]bool{"p": true}}, clock.NewManual(start)
	d := New(a.ask, c)
	expect := func(provider string, exists bool, questions int) {
		t.Helper()
		switch got, err := d.Exists(t.Context(), provider); {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case got != exists:
			t.Errorf("d.Exists(t.Context(), provider): got %t, want %t", got, exists)
		case a.count != questions:
			t.Errorf("a.count: got %d, want %d", a.count, questions)
		}
	}
	expect("p", true, 1)
	expect("q", false, 2)
	c.Advance(NegativeFor - 1)
	expect("q", false, 2)
	c.Advance(1)
	a.exists["q"] = true // created meanwhile
	expect("q", true, 3)
	expect("p", true, 3)
	c.Advance(PositiveFor)
	expect("p", true, 4)
}

func TestAFailureIsNotRemembered(t *testing.T) {
	a := &asked{err: errors.New("away")}
	d := New(a.ask, clock.NewManual(start))
	if _, err := d.Exists(t.Context(), "p"); err == nil {
		t.Fatal("no error")
	}
	a.err, a.exists = nil, map[string]bool{"p": true}
	if got, err := d.Exists(t.Context(), "p"); !got {
		t.Error(`d.Exists(t.Context(), "p"): got false, want true`)
	} else if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}

func TestTheMemoryIsBounded(t *testing.T) {
	d := New((&asked{}).ask, clock.NewManual(start))
	for i := range MaxEntries + 10 {
		if _, err := d.Exists(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(d.answers); n > MaxEntries {
		t.Errorf("answers kept: got %d, want at most %d", n, MaxEntries)
	}
}

func TestCallersTogetherAskOnceAndOneMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, count := make(chan struct{}), 0
		d := New(func(ctx context.Context, _ string) (bool, error) {
			count++
			<-release
			return true, ctx.Err()
		}, clock.NewManual(start))
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := d.Exists(ctx, "p")
			left <- err
		}()
		synctest.Wait()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if got, err := d.Exists(t.Context(), "p"); !got {
					t.Error(`d.Exists(t.Context(), "p"): got false, want true`)
				} else if err != nil {
					t.Errorf("got the error %v, want none", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller who left: got the error %v, want %v", err, context.Canceled)
		}
		close(release)
		wg.Wait()
		if count != 1 {
			t.Errorf("asked: got %d, want 1", count)
		}
	})
}
