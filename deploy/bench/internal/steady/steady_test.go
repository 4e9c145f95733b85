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
			t.Errorf("%v: %d, want %d", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("of none: %d", got)
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
		if first.Requests != 10 || first.Failed != 0 || first.P50 != 20 || first.P99 != 20 || first.Max != 20 {
			t.Errorf("%+v", first)
		}
		second := l.During(Span{began.Add(time.Second), began.Add(2 * time.Second)})
		if second.Requests != 10 || second.Failed != 10 || second.Fault != "broken" || second.P99 != 0 {
			t.Errorf("%+v", second)
		}
		if n, last, each := l.Beyond(Span{began, began.Add(time.Minute)}, 20); n != 10 || last != 1900*time.Millisecond ||
			each[0] != 0 || each[1] != 10 || len(each) != 61 {
			t.Errorf("%d beyond, the last after %v", n, last)
		}
		if n, _, _ := l.Beyond(Span{began, began.Add(time.Second)}, 19.9); n != 10 {
			t.Errorf("%d took longer than 19.9 ms", n)
		}
		if both := l.During(Span{began, began.Add(time.Second)},
			Span{began.Add(time.Second), began.Add(time.Minute)}); both.Requests != 20 {
			t.Errorf("%+v", both)
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
		if f := l.During(Span{began, began.Add(time.Hour)}); f.Requests != 1500 || f.Failed != 1500-maxUnderWay {
			t.Errorf("%+v", f)
		}
	})
}
