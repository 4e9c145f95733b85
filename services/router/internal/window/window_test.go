package window

import (
	"math"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func served(at time.Time, first time.Duration) Sample {
	return Sample{At: at, Served: true, FirstContent: first, TokensPerSecond: 50}
}

func TestAnUnknownProviderIsHealthy(t *testing.T) {
	var w Window
	if h := w.Health(); h.Success != 1 || h.Degraded || h.Samples != 0 {
		t.Errorf("%+v", h)
	}
	if f := w.Figures(start); f != (Figures{}) {
		t.Errorf("%+v", f)
	}
}

func TestDegradedNeedsEnoughSamples(t *testing.T) {
	var w Window
	for i := range Enough {
		if w.Health().Degraded {
			t.Fatalf("degraded after %d failures", i)
		}
		w.Record(Sample{At: start})
	}
	if !w.Health().Degraded {
		t.Error("not degraded although everything fails")
	}
}

func TestOldFailuresAreForgiven(t *testing.T) {
	var w Window
	for range 20 {
		w.Record(Sample{At: start})
	}
	if empty := w.Refresh(start.Add(Span)); empty {
		t.Error("the day was forgotten with the window")
	}
	if h := w.Health(); h.Degraded || h.Success != 1 {
		t.Errorf("%+v", h)
	}
	if empty := w.Refresh(start.Add(25 * time.Hour)); !empty {
		t.Error("a day-old window is not empty")
	}
}

func TestSuccessesPushFailuresOut(t *testing.T) {
	var w Window
	for range MaxSamples {
		w.Record(Sample{At: start})
	}
	for range MaxSamples {
		w.Record(served(start, time.Second))
	}
	if h := w.Health(); h.Success != 1 || h.Samples != MaxSamples {
		t.Errorf("%+v", h)
	}
	if n := len(w.samples); n != MaxSamples {
		t.Errorf("%d samples kept", n)
	}
	if f := w.Figures(start); f.Success24h != 0.5 || f.Samples != 2*MaxSamples {
		t.Errorf("%+v", f)
	}
}

func TestQuantilesAreThoseOfTheServedAttempts(t *testing.T) {
	var w Window
	for i := 1; i <= 20; i++ {
		w.Record(served(start, time.Duration(i)*100*time.Millisecond))
	}
	w.Record(Sample{At: start, FirstContent: time.Hour})
	f := w.Figures(start)
	if f.FirstContentP50 != time.Second || f.FirstContentP95 != 1900*time.Millisecond || f.TokensPerSecondP50 != 50 {
		t.Errorf("%+v", f)
	}
}

func TestTheAverageFollowsTheNewest(t *testing.T) {
	var w Window
	w.Record(served(start, time.Second))
	for range 30 {
		w.Record(served(start, 2*time.Second))
	}
	if got := w.Health().FirstContent; math.Abs(got.Seconds()-2) > 0.01 {
		t.Errorf("average %v", got)
	}
}

func TestTheDayIsCountedByTheHour(t *testing.T) {
	var w Window
	for i := range 48 {
		w.Record(served(start.Add(time.Duration(i)*time.Hour), time.Second))
	}
	if f := w.Figures(start.Add(47 * time.Hour)); f.Samples != hours {
		t.Errorf("%d attempts in a day of 24", f.Samples)
	}
}
