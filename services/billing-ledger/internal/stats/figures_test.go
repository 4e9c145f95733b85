package stats_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
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

func TestNumbersHaveTwoSignificantDigits(t *testing.T) {
	for n, want := range map[int64]int64{
		0: 0, 7: 0, 9: 0, 10: 10, 14: 10, 15: 20, 94: 90, 99: 100, 104: 100, 105: 110, 994: 990, 995: 1000,
		1_249: 1_200, 1_250: 1_300, 123_456_789: 120_000_000,
	} {
		if got := stats.Rounded(n); got != want {
			t.Errorf("%d: got %d, want %d", n, got, want)
		}
	}
	s := requests(1234)
	s.Tokens, s.Succeeded, s.Judged = 98_765, 1233, 1234
	f := stats.Of(s)
	if f.Requests != 1200 {
		t.Errorf("requests: got %d, want 1200", f.Requests)
	}
	if f.Tokens != 99_000 {
		t.Errorf("tokens: got %d, want 99000", f.Tokens)
	}
	if *f.SuccessRate != 0.999 {
		t.Errorf("success rate: got %v, want 0.999", *f.SuccessRate)
	}
}

func TestWindowsEndWithFiveMinutesOrBeforeTheHour(t *testing.T) {
	w := stats.Last(noon, 24*time.Hour)
	if want := time.Date(2026, 7, 30, 12, 35, 0, 0, time.UTC); !w.Until.Equal(want) {
		t.Errorf("the end: got %s, want %s", w.Until, want)
	}
	if got := w.Until.Sub(w.From); got != 24*time.Hour {
		t.Errorf("the length: got %s, want 24h", got)
	}
	if before := w.Before(); !before.Until.Equal(w.From) {
		t.Errorf("the window before ends: got %s, want %s", before.Until, w.From)
	}
	hours := stats.LastHours(noon, 24*time.Hour)
	if want := time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC); !hours.Until.Equal(want) {
		t.Errorf("the end of the hours: got %s, want %s", hours.Until, want)
	}
}

// sums is a store that may fail.
type sums struct {
	at          time.Time
	groups      []stats.Group
	fives, days map[time.Time]*stats.Sum
	err         error
	groupsErr   error
	few         bool
	reads       int
	groupReads  int
}

func (s *sums) FoldedUntil(context.Context) (time.Time, error) {
	s.reads++
	return s.at, s.err
}

func (s *sums) Groups(_ context.Context, _ stats.Window, _ int, add func(*stats.Group)) error {
	s.groupReads++
	for i := range s.groups {
		group := s.groups[i]
		add(&group)
	}
	return cmp.Or(s.err, s.groupsErr)
}

func (s *sums) Accounts(context.Context, stats.Window) (int, error) {
	if s.few {
		return stats.LeastAccounts - 1, s.err
	}
	return stats.LeastAccounts, s.err
}

func (s *sums) OfService(_ context.Context, span stats.Span, _ time.Time) (map[time.Time]*stats.Sum, error) {
	if span == stats.Day {
		return s.days, s.err
	}
	return s.fives, s.err
}

func newCache(store *sums) (*stats.Cache, *clock.Manual) {
	store.at = noon
	now := clock.NewManual(noon)
	return stats.NewCache(store, now, slog.New(slog.DiscardHandler)), now
}

func TestFiguresAreOfModelsProvidersAndAll(t *testing.T) {
	a, b := newProvider(t), newProvider(t)
	store := &sums{
		groups: []stats.Group{
			{Subject: stats.Subject{Provider: a}, Sum: *requests(12)}, {Subject: stats.Subject{Provider: b}, Sum: *requests(20)},
			{Subject: stats.Subject{Model: "n"}, Sum: *requests(3)}, {Subject: stats.Subject{Model: "m"}, Sum: *requests(2)},
			{Subject: stats.Subject{Model: "m"}, Sum: *requests(30)},
		},
		fives: map[time.Time]*stats.Sum{
			noon.Truncate(5 * time.Minute): requests(360), noon.Truncate(time.Hour).Add(-2 * time.Hour): requests(40),
			noon.Truncate(time.Hour).Add(-26 * time.Hour): requests(70),
		},
		days: map[time.Time]*stats.Sum{stats.Day.Start(noon): requests(360)},
	}
	cache, _ := newCache(store)
	if err := cache.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := cache.Answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.LastDay.Requests != 400 {
		t.Errorf("all: got %d requests, want 400", got.LastDay.Requests)
	}
	if len(got.Models) != 2 {
		t.Fatalf("models: got %d, want 2", len(got.Models))
	}
	first := got.Models[0]
	if first.Model != "m" {
		t.Errorf("the first model: got %q, want m", first.Model)
	}
	if first.Requests != 30 {
		t.Errorf("requests of the first model: got %d, want 30", first.Requests)
	}
	if len(got.Providers) != 2 {
		t.Fatalf("providers: got %d, want 2", len(got.Providers))
	}
	if got.Providers[0].Provider != b {
		t.Errorf("the first provider: got %s, want %s", got.Providers[0].Provider, b)
	}
	if len(got.Days) != stats.Days {
		t.Fatalf("days: got %d, want %d", len(got.Days), stats.Days)
	}
	if today := got.Days[stats.Days-1]; today.Requests != 360 {
		t.Errorf("today: got %d requests, want 360", today.Requests)
	}
	if *got.LastHour != 360 {
		t.Errorf("the last hour: got %d, want 360", *got.LastHour)
	}
	if *got.DayBefore != 70 {
		t.Errorf("the day before: got %d, want 70", *got.DayBefore)
	}
	if yesterday := got.Days[stats.Days-2]; yesterday.Figures != nil {
		t.Errorf("a day without enough accounts: got %+v, want none", *yesterday.Figures)
	}
}

// looked reads the sums and returns the answer.
func looked(t *testing.T, cache *stats.Cache) (*stats.Answer, error) {
	t.Helper()
	failed := cache.Look(t.Context())
	a, err := cache.Answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a, failed
}

// Few accounts are told from few requests: those have numbers, and these have none.
func TestTheServiceOfFewAccountsHasNoFigures(t *testing.T) {
	store := &sums{few: true, fives: map[time.Time]*stats.Sum{
		noon.Truncate(5 * time.Minute): requests(360), noon.Truncate(time.Hour).Add(-26 * time.Hour): requests(70),
	}}
	cache, _ := newCache(store)
	a, err := looked(t, cache)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]*int64{"last hour": a.LastHour, "before": a.DayBefore} {
		if got != nil {
			t.Errorf("%s: got %d requests, want none", name, *got)
		}
	}
	if a.LastDay != nil {
		t.Errorf("last day: got %+v, want none", *a.LastDay)
	}
	store.few = false
	store.fives = map[time.Time]*stats.Sum{noon.Truncate(5 * time.Minute): requests(9)}
	if a, err = looked(t, cache); err != nil {
		t.Fatal(err)
	}
	if a.LastHour == nil {
		t.Fatal("nine requests of enough accounts: got none, want 0")
	}
	if *a.LastHour != 0 {
		t.Errorf("nine requests of enough accounts: got %d, want 0", *a.LastHour)
	}
}

func TestTheServiceHasFiguresWithoutNewOnesOfModels(t *testing.T) {
	store := &sums{fives: map[time.Time]*stats.Sum{noon.Truncate(5 * time.Minute): requests(360)},
		groups: []stats.Group{{Subject: stats.Subject{Model: "m"}, Sum: *requests(30)}}}
	cache, now := newCache(store)
	if _, err := looked(t, cache); err != nil {
		t.Fatal(err)
	}
	store.groupsErr = errors.New("it takes too long")
	for _, c := range []struct {
		models int
		later  time.Duration
	}{{1, time.Hour}, {0, time.Hour}} {
		now.Advance(c.later)
		store.at = store.at.Add(c.later)
		store.fives[store.at.Truncate(5*time.Minute)] = requests(360)
		a, err := looked(t, cache)
		if err == nil {
			t.Error("the reading: got no error, want one")
		}
		if *a.LastHour != 360 {
			t.Errorf("the last hour: got %d requests, want 360", *a.LastHour)
		}
		if len(a.Models) != c.models {
			t.Errorf("models: got %d, want %d", len(a.Models), c.models)
		}
	}
}

func TestFiguresOfAFoldThatIsBehindAreRefused(t *testing.T) {
	store := &sums{}
	cache, now := newCache(store)
	for _, c := range []struct {
		later   time.Duration
		refused bool
	}{{59 * time.Minute, false}, {time.Minute, true}} {
		now.Advance(c.later)
		if err := cache.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Answer(t.Context()); fault.Is(err, fault.ServiceUnavailable) != c.refused {
			t.Errorf("%s later: got the error %v, want one: %t", c.later, err, c.refused)
		}
	}
}

func TestModelsAndProvidersAreReadOnceAnHour(t *testing.T) {
	store := &sums{}
	cache, _ := newCache(store)
	for minutes, want := range []int{0: 1, 1: 1, 25: 1, 26: 2, 27: 2} {
		if want == 0 {
			continue
		}
		store.at = noon.Add(time.Duration(minutes) * time.Minute)
		if err := cache.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if store.groupReads != want {
			t.Errorf("%d minutes later: got %d readings, want %d", minutes, store.groupReads, want)
		}
	}
}

func TestAnAnswerOutlivesTheStoreForAnHour(t *testing.T) {
	store := &sums{}
	cache, now := newCache(store)
	look := func(fails bool) {
		t.Helper()
		if err := cache.Look(t.Context()); (err != nil) != fails {
			t.Errorf("the reading: got the error %v, want one: %t", err, fails)
		}
	}
	answer := func(fails bool) {
		t.Helper()
		if _, err := cache.Answer(t.Context()); fault.Is(err, fault.ServiceUnavailable) != fails {
			t.Errorf("the answer: got the error %v, want one: %t", err, fails)
		}
	}
	look(false)
	store.err = errors.New("the store is away")
	now.Advance(59 * time.Minute)
	look(true)
	answer(false)
	now.Advance(time.Minute)
	answer(true)
	store.err, store.at = nil, now.Now()
	look(false)
	answer(false)
	if store.reads != 3 {
		t.Errorf("readings, of which callers make none: got %d, want 3", store.reads)
	}
}

func TestACallerWaitsForTheFirstReadingAlone(t *testing.T) {
	cache, _ := newCache(&sums{})
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := cache.Answer(gone); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("before the first reading: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
	if err := cache.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.Answer(gone); err != nil {
		t.Errorf("after it: got the error %v, want none", err)
	}
}

func TestReadingsThatFailAreTriedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sums{err: errors.New("the store is away")}
		cache, _ := newCache(store)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			cache.Run(ctx)
		}()
		time.Sleep(10 * time.Minute) //nolint:forbidigo // the bubble's time
		cancel()
		<-done
		// After 0, 5, 15, 35 and 75 s, and then each minute.
		if store.reads != 13 {
			t.Errorf("readings in ten minutes: got %d, want 13", store.reads)
		}
	})
}
