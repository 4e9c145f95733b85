package window

import (
	"math"
	"testing"
	"time"

	"svc.internal/services/router/internal/tag"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func served(at time.Time, first time.Duration) Sample {
	return Sample{At: at, Served: true, FirstContent: first, TokensPerSecond: 50}
}

func TestAnUnknownProviderIsHealthy(t *testing.T) {
	var w Window
	switch h := w.Health(); {
	case h.Success != 1:
		t.Errorf("h.Success: got %v, want 1", h.Success)
	case h.Degraded:
		t.Error("h.Degraded: got true, want false")
	case h.Samples != 0:
		t.Errorf("h.Samples: got %d, want 0", h.Samples)
	}
	if f := w.Figures(start); f != (Figures{}) {
		t.Errorf("w.Figures(start): got %+v, want %+v", f, Figures{})
	}
}

func TestDegradedNeedsEnoughSamples(t *testing.T) {
	var w Window
	for i := range Enough {
		if w.Health().Degraded {
			t.Fatalf("degraded after %d failures", i)
		}
		w.Record(Sample{At: start, Account: tag.Account(i)})
	}
	if !w.Health().Degraded {
		t.Error("not degraded although everything fails")
	}
}

func TestOldFailuresAreForgiven(t *testing.T) {
	var w Window
	for i := range 20 {
		w.Record(Sample{At: start, Account: tag.Account(i)})
	}
	if empty := w.Refresh(start.Add(Span)); empty {
		t.Error("the day was forgotten with the window")
	}
	if h := w.Health(); h.Degraded {
		t.Error("h.Degraded: got true, want false")
	} else if h.Success != 1 {
		t.Errorf("h.Success: got %v, want 1", h.Success)
	}
	if empty := w.Refresh(start.Add(25 * time.Hour)); !empty {
		t.Error("a day-old window is not empty")
	}
}

func TestSuccessesPushFailuresOut(t *testing.T) {
	var w Window
	for i := range MaxSamples {
		w.Record(Sample{At: start, Account: tag.Account(i)})
	}
	for range MaxSamples {
		w.Record(served(start, time.Second))
	}
	if h := w.Health(); h.Success != 1 {
		t.Errorf("h.Success: got %v, want 1", h.Success)
	} else if h.Samples != MaxSamples {
		t.Errorf("h.Samples: got %d, want %d", h.Samples, MaxSamples)
	}
	if n := len(w.samples); n != MaxSamples {
		t.Errorf("samples kept: got %d, want %d", n, MaxSamples)
	}
	if f := w.Figures(start); f.Success24h != 0.5 {
		t.Errorf("f.Success24h: got %v, want 0.5", f.Success24h)
	} else if f.Samples != 2*MaxSamples {
		t.Errorf("f.Samples: got %d, want %d", f.Samples, 2*MaxSamples)
	}
}

func TestQuantilesAreThoseOfTheServedAttempts(t *testing.T) {
	var w Window
	for i := 1; i <= 20; i++ {
		w.Record(served(start, time.Duration(i)*100*time.Millisecond))
	}
	w.Record(Sample{At: start, FirstContent: time.Hour})
	f := w.Figures(start)
	switch {
	case f.FirstContentP50 != time.Second:
		t.Errorf("f.FirstContentP50: got %v, want %v", f.FirstContentP50, time.Second)
	case f.FirstContentP95 != 1900*time.Millisecond:
		t.Errorf("f.FirstContentP95: got %v, want %v", f.FirstContentP95, 1900*time.Millisecond)
	case f.TokensPerSecondP50 != 50:
		t.Errorf("f.TokensPerSecondP50: got %v, want 50", f.TokensPerSecondP50)
	}
}

func TestTheAverageFollowsTheNewest(t *testing.T) {
	var w Window
	w.Record(served(start, time.Second))
	for range 30 {
		w.Record(served(start, 2*time.Second))
	}
	if got := w.Health().FirstContent; math.Abs(got.Seconds()-2) > 0.01 {
		t.Errorf("average: got %v, want at most 0.01", math.Abs(got.Seconds()-2))
	}
}

func TestTheDayIsCountedByTheHour(t *testing.T) {
	var w Window
	for i := range 48 {
		w.Record(served(start.Add(time.Duration(i)*time.Hour), time.Second))
	}
	if f := w.Figures(start.Add(47 * time.Hour)); f.Samples != hours {
		t.Errorf("attempts in a day of 24: got %d, want %d", f.Samples, hours)
	}
}

func TestOneOrTwoAccountsDegradeNobody(t *testing.T) {
	var w Window
	for range 8 {
		w.Record(served(start, time.Second))
	}
	before := w.Health().Success
	for i := range 50 {
		w.Record(Sample{At: start, Account: tag.Account(1 + i%2)})
	}
	h := w.Health()
	if h.Degraded {
		t.Error("got degraded by the failures of two accounts, want not")
	}
	if want := 8 + 2*FailuresOfAccount; h.Samples != want {
		t.Errorf("got %d samples, want %d: at most %d failures of an account count", h.Samples, want, FailuresOfAccount)
	}
	if f := w.Figures(start); f.Samples != 8+2*FailuresOfAccount {
		t.Errorf("got %d attempts in the day's figures, want the same", f.Samples)
	}
	w.Record(Sample{At: start, Account: 3})
	if h := w.Health(); !h.Degraded {
		t.Errorf("got %+v although three accounts' requests failed, want degraded (it was %v before)", h, before)
	}
	later := start.Add(Span)
	w.Record(Sample{At: later, Account: 1})
	if got := w.Health().Samples; got != 1 {
		t.Errorf("got %d samples after the span, want 1: an account's share is renewed", got)
	}
}

func TestAFewHonestAnswersAreNotLostInOneAccountsFailures(t *testing.T) {
	var w Window
	w.Record(served(start, time.Second))
	for range 10 * MaxSamples {
		w.Record(Sample{At: start, Account: 1})
	}
	if got := w.Health().FirstContent; got != time.Second {
		t.Errorf("got a first content of %v, want %v", got, time.Second)
	}
}
