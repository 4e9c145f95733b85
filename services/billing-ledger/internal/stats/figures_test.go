package stats_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/stats"
)

func TestAPercentileIsWithinItsError(t *testing.T) {
	if stats.MaxError > 0.0443 {
		t.Fatalf("the error that a bucket allows: got %v, want at most 0.0443", stats.MaxError)
	}
	random := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for range 200 {
		var h stats.Histogram
		values := make([]float64, 1+random.IntN(500))
		for i := range values {
			values[i] = math.Ceil(math.Exp(random.Float64() * math.Log(1e6)))
			h.Count(values[i])
		}
		slices.Sort(values)
		for _, part := range []float64{0.01, 0.5, 0.95, 1} {
			exact := values[int(math.Ceil(part*float64(len(values))))-1]
			worst = max(worst, math.Abs(h.Percentile(part)/exact-1))
		}
	}
	if worst > stats.MaxError {
		t.Errorf("the largest error: got %v, want at most %v", worst, stats.MaxError)
	}
	t.Logf("the largest error of 800 percentiles is %.4f", worst)
}

func TestValuesBeyondTheBucketsFallIntoTheOutermost(t *testing.T) {
	var h stats.Histogram
	for _, v := range []float64{math.NaN(), -1, 0, math.Inf(1), 1e300} {
		h.Count(v)
	}
	if h[0] != 3 {
		t.Errorf("the first bucket: got %d, want 3", h[0])
	}
	if h[stats.Buckets-1] != 2 {
		t.Errorf("the last bucket: got %d, want 2", h[stats.Buckets-1])
	}
}

// requests is a sum of so many streamed answers.
func requests(n int) *stats.Sum {
	s := &stats.Sum{Requests: int64(n), Judged: int64(n), Succeeded: int64(n)}
	for range n {
		s.FirstContent.Count(100)
		s.Speed.Count(5000)
	}
	return s
}

func TestFewRequestsHaveNoFigures(t *testing.T) {
	for n, shown := range map[int]struct{ rate, tail bool }{
		0: {}, 9: {}, 10: {rate: true}, 19: {rate: true}, 20: {rate: true, tail: true},
	} {
		f := stats.Of(requests(n))
		for name, figure := range map[string]*float64{
			"success rate": f.SuccessRate, "retried share": f.RetriedShare, "median": f.FirstContentP50, "speed": f.SpeedP50,
		} {
			if got := figure != nil; got != shown.rate {
				t.Errorf("%d requests: %s is shown: got %t, want %t", n, name, got, shown.rate)
			}
		}
		if got := f.FirstContentP95 != nil; got != shown.tail {
			t.Errorf("%d requests: the 95th percentile is shown: got %t, want %t", n, got, shown.tail)
		}
	}
}

func TestARateOfFewJudgedRequestsIsNotShown(t *testing.T) {
	s := requests(100)
	s.Judged, s.Succeeded = 9, 0
	if f := stats.Of(s); f.SuccessRate != nil {
		t.Errorf("the rate of 9 of 100 requests: got %v, want none", *f.SuccessRate)
	}
}

func TestAWindowIsWholeHoursAndTheRest(t *testing.T) {
	w := stats.Last(noon, 24*time.Hour)
	if want := time.Date(2026, 7, 30, 12, 35, 0, 0, time.UTC); !w.Until.Equal(want) {
		t.Errorf("the end: got %s, want %s", w.Until, want)
	}
	if got := w.Until.Sub(w.From); got != 24*time.Hour {
		t.Errorf("the length: got %s, want 24h", got)
	}
	hours := w.Hours()
	if got := hours.Until.Sub(hours.From); got != 23*time.Hour {
		t.Errorf("the whole hours: got %s, want 23h", got)
	}
	if before := w.Before(); !before.Until.Equal(w.From) {
		t.Errorf("the window before ends: got %s, want %s", before.Until, w.From)
	}
	if short := stats.Last(noon, 10*time.Minute).Hours(); !short.From.Equal(short.Until) {
		t.Errorf("whole hours of ten minutes: got %s to %s, want none", short.From, short.Until)
	}
}

// sums is a store that may fail.
type sums struct {
	groups []stats.Group
	days   map[time.Time]*stats.Sum
	err    error
	reads  int
}

func (s *sums) FoldedUntil(context.Context) (time.Time, error) {
	s.reads++
	return noon, s.err
}

func (s *sums) Groups(_ context.Context, _ stats.Window, add func(*stats.Group)) error {
	for i := range s.groups {
		group := s.groups[i]
		add(&group)
	}
	return s.err
}

func (s *sums) Requests(_ context.Context, w stats.Window) (int64, error) {
	return int64(w.Until.Sub(w.From) / time.Hour), s.err
}

func (s *sums) ByDay(context.Context, time.Time) (map[time.Time]*stats.Sum, error) {
	return s.days, s.err
}

func TestFiguresAreOfModelsProvidersAndAll(t *testing.T) {
	a, b := newProvider(t), newProvider(t)
	failed := requests(12)
	failed.FailedOver = 12
	store := &sums{
		groups: []stats.Group{
			{Model: "m", Provider: a, Sum: *failed}, {Model: "m", Provider: b, Sum: *requests(20)},
			{Model: "n", Provider: b, Sum: *requests(3)}, {Model: "n", Sum: *requests(1)},
		},
		days: map[time.Time]*stats.Sum{stats.Day.Start(noon): requests(36)},
	}
	got, err := stats.NewCache(store, clock.NewManual(noon)).Answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.LastDay.Requests != 36 {
		t.Errorf("all: got %d requests, want 36", got.LastDay.Requests)
	}
	if rate := *got.LastDay.SuccessRate; rate != 1 {
		t.Errorf("the rate of all: got %v, want 1, because other attempts followed", rate)
	}
	if len(got.Models) != 2 {
		t.Fatalf("models: got %d, want 2", len(got.Models))
	}
	if got.Models[0].Model != "m" {
		t.Errorf("the first model: got %q, want m, which has the most requests", got.Models[0].Model)
	}
	if len(got.Providers) != 2 {
		t.Fatalf("providers: got %d, want 2", len(got.Providers))
	}
	if got.Providers[0].Provider != b {
		t.Errorf("the first provider: got %s, want %s", got.Providers[0].Provider, b)
	}
	if rate := *got.Providers[1].SuccessRate; rate != 0.5 {
		t.Errorf("the rate of the provider with failed attempts: got %v, want 0.5", rate)
	}
	if len(got.Days) != stats.Days {
		t.Fatalf("days: got %d, want %d", len(got.Days), stats.Days)
	}
	if today := got.Days[stats.Days-1]; today.Requests != 36 {
		t.Errorf("today: got %d requests, want 36", today.Requests)
	}
	if got.LastHour != 1 {
		t.Errorf("the last hour: got %d, want 1", got.LastHour)
	}
	if got.DayBefore != 24 {
		t.Errorf("the day before: got %d, want 24", got.DayBefore)
	}
}

func TestAnAnswerIsKeptForAMinuteAndOutlivesTheStore(t *testing.T) {
	store, now := &sums{}, clock.NewManual(noon)
	cache := stats.NewCache(store, now)
	ask := func(reads int, fails bool) {
		t.Helper()
		_, err := cache.Answer(t.Context())
		if got := err != nil; got != fails {
			t.Errorf("it fails: got %t, want %t: %v", got, fails, err)
		}
		if store.reads != reads {
			t.Errorf("reads: got %d, want %d", store.reads, reads)
		}
	}
	ask(1, false)
	now.Advance(59 * time.Second)
	ask(1, false)
	now.Advance(time.Second)
	ask(2, false)
	store.err = errors.New("the store is away")
	now.Advance(time.Minute)
	ask(3, false) // the last answer
	ask(3, false) // and a pause
	now.Advance(59 * time.Minute)
	ask(4, true)
	store.err = nil
	now.Advance(5 * time.Second)
	ask(5, false)
}
