package steady

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAQuantileHasItsShareBelow(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 100, 0.99: 198, 0.995: 199, 1: 200} {
		if got := Quantile(all, q); got != want {
			t.Errorf("%v: got %d, want %d", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("of none: got %d, want 0", got)
	}
}

func TestLatencyCountsFromWhenARequestWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		broken := errors.New("broken")
		l := Start(t.Context(), 10, func(context.Context) error {
			if time.Since(began) >= time.Second {
				return broken
			}
			<-time.After(20 * time.Millisecond)
			return nil
		})
		<-time.After(1950 * time.Millisecond)
		l.Stop()
		first := l.During(Span{began, began.Add(time.Second)})
		switch {
		case first.Requests != 10:
			t.Errorf("first.Requests: got %d, want 10", first.Requests)
		case first.Failed != 0:
			t.Errorf("first.Failed: got %d, want 0", first.Failed)
		case first.P50 != 20:
			t.Errorf("first.P50: got %v, want 20", first.P50)
		case first.P99 != 20:
			t.Errorf("first.P99: got %v, want 20", first.P99)
		case first.Max != 20:
			t.Errorf("first.Max: got %v, want 20", first.Max)
		}
		second := l.During(Span{began.Add(time.Second), began.Add(2 * time.Second)})
		switch {
		case second.Requests != 10:
			t.Errorf("second.Requests: got %d, want 10", second.Requests)
		case second.Failed != 10:
			t.Errorf("second.Failed: got %d, want 10", second.Failed)
		case second.Fault != "broken":
			t.Errorf(`second.Fault: got %q, want "broken"`, second.Fault)
		case second.P99 != 0:
			t.Errorf("second.P99: got %v, want 0", second.P99)
		}
		switch n, last, each := l.Beyond(Span{began, began.Add(time.Minute)}, 20); {
		case n != 10:
			t.Errorf("%d beyond, the last after %v: l.Beyond(…): got %d, want 10", n, last, n)
		case last != 1900*time.Millisecond:
			t.Errorf("%d beyond, the last after %v: last: got %v, want %v", n, last, last, 1900*time.Millisecond)
		case each[0] != 0:
			t.Errorf("%d beyond, the last after %v: each[0]: got %d, want 0", n, last, each[0])
		case each[1] != 10:
			t.Errorf("%d beyond, the last after %v: each[1]: got %d, want 10", n, last, each[1])
		case len(each) != 61:
			t.Errorf("%d beyond, the last after %v: len(each): got %d, want 61", n, last, len(each))
		}
		if n, _, _ := l.Beyond(Span{began, began.Add(time.Second)}, 19.9); n != 10 {
			t.Errorf("took longer than 19.9 ms: got %d, want 10", n)
		}
		if both := l.During(Span{began, began.Add(time.Second)},
			Span{began.Add(time.Second), began.Add(time.Minute)}); both.Requests != 20 {
			t.Errorf("both.Requests: got %d, want 20", both.Requests)
		}
	})
}

func TestRequestsBeyondTheBoundFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, release := time.Now(), make(chan struct{})
		l := Start(t.Context(), 1000, func(context.Context) error { <-release; return nil })
		<-time.After(1500*time.Millisecond - time.Microsecond)
		close(release)
		l.Stop()
		if f := l.During(Span{began, began.Add(time.Hour)}); f.Requests != 1500 {
			t.Errorf("f.Requests: got %d, want 1500", f.Requests)
		} else if f.Failed != 1500-maxUnderWay {
			t.Errorf("f.Failed: got %d, want %d", f.Failed, 1500-maxUnderWay)
		}
	})
}
