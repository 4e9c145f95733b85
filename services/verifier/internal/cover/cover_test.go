package cover_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/cover"
)

var (
	noon   = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	plain  = cover.Shape{Streamed: true, Length: 8}
	greedy = cover.Shape{Greedy: true, Length: 7}
	stated = cover.Shape{Greedy: true, Logprobs: true, Length: 7}
)

func week(t *testing.T, counts map[cover.Shape]int64) *cover.Week {
	t.Helper()
	w := cover.NewWeek()
	if err := w.Report(noon, counts); err != nil {
		t.Fatal(err)
	}
	return w
}

func all(cover.Shape) bool { return true }

func TestLengthsAreBinaryDigits(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[int]uint8{
		-1: 0, 0: 0, 1: 1, 2: 2, 3: 2, 4: 3, 255: 8, 256: 9, 1 << 21: 22, 1 << 22: 23, math.MaxInt: 23,
	} {
		if got := cover.LengthOf(tokens); got != want {
			t.Errorf("%d tokens: got %d, want %d", tokens, got, want)
		}
	}
}

func TestProbesAreAtMostATenthOfTheirShape(t *testing.T) {
	t.Parallel()
	w := week(t, map[cover.Shape]int64{plain: 95, greedy: 9})
	for range 9 {
		s, err := w.Draw(all, false, nil, .5)
		if err != nil {
			t.Fatal(err)
		}
		w.Probed(noon, s)
	}
	if _, err := w.Draw(all, false, nil, .5); !errors.Is(err, cover.ErrNoCover) {
		t.Errorf("a tenth probe: got the error %v, want %v", err, cover.ErrNoCover)
	}
	if got := w.Room(greedy); got != 0 {
		t.Errorf("room among 9 requests: got %d, want 0", got)
	}
}

// An offer that is owed its probes of the day gets them without cover, but never with
// log-probabilities.
func TestOwedProbesGoWithoutCoverButNeverForLogprobs(t *testing.T) {
	t.Parallel()
	w, prior := cover.NewWeek(), map[cover.Shape]int64{plain: 1, stated: 1_000}
	for range 100 {
		s, err := w.Draw(all, true, prior, rand.Float64())
		if err != nil {
			t.Fatal(err)
		}
		if s != plain {
			t.Fatalf("got %+v, want %+v", s, plain)
		}
	}
	logprobs := func(s cover.Shape) bool { return s.Logprobs }
	if _, err := w.Draw(logprobs, true, prior, 0); !errors.Is(err, cover.ErrNoCover) {
		t.Errorf("logprobs: got the error %v, want %v", err, cover.ErrNoCover)
	}
	if _, err := w.Draw(all, false, prior, 0); !errors.Is(err, cover.ErrNoCover) {
		t.Errorf("not owed: got the error %v, want %v", err, cover.ErrNoCover)
	}
}

func TestShapesAreDrawnAsOftenAsConsumersHaveThem(t *testing.T) {
	t.Parallel()
	w := week(t, map[cover.Shape]int64{plain: 600_000, greedy: 300_000, stated: 100_000})
	dice, got := rand.New(rand.NewPCG(1, 2)), map[cover.Shape]float64{}
	const draws = 20_000
	for range draws {
		s, err := w.Draw(all, false, nil, dice.Float64())
		if err != nil {
			t.Fatal(err)
		}
		got[s] += 1.0 / draws
	}
	for s, want := range map[cover.Shape]float64{plain: .6, greedy: .3, stated: .1} {
		if math.Abs(got[s]-want) > .02 {
			t.Errorf("%+v: got the part %v, want %v", s, got[s], want)
		}
	}
}

func TestAWeekForgetsWhatIsOlder(t *testing.T) {
	t.Parallel()
	w := week(t, map[cover.Shape]int64{plain: 100})
	for h := range 2_000 {
		at := noon.Add(time.Duration(h) * time.Hour)
		w.Probed(at, greedy)
		if err := w.Report(at, map[cover.Shape]int64{greedy: 20}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Requests(plain); got != 0 {
		t.Errorf("requests of long ago: got %d, want 0", got)
	}
	if got, want := w.Requests(greedy), int64(168*20); got != want {
		t.Errorf("requests of the week: got %d, want %d", got, want)
	}
	if got, want := w.Room(greedy), int64(168*2-168); got != want {
		t.Errorf("room: got %d, want %d", got, want)
	}
	if err := w.Report(noon, map[cover.Shape]int64{plain: 100}); err != nil {
		t.Fatal(err)
	}
	if got := w.Requests(plain); got != 0 {
		t.Errorf("a late report of long ago: got %d requests, want 0", got)
	}
}

func TestAbsurdReportsChangeNothing(t *testing.T) {
	t.Parallel()
	w := week(t, map[cover.Shape]int64{plain: 100})
	for name, bad := range map[string]map[cover.Shape]int64{
		"none": {plain: 5, greedy: 0}, "below none": {plain: -100}, "too many": {plain: cover.MaxCount + 1},
		"no such length": {{Length: cover.MaxLength + 1}: 5},
	} {
		if err := w.Report(noon, bad); !errors.Is(err, cover.ErrReport) {
			t.Errorf("%s: got the error %v, want %v", name, err, cover.ErrReport)
		}
	}
	if got := w.Requests(plain); got != 100 {
		t.Errorf("requests: got %d, want 100", got)
	}
	for range 3 { // sums stay within their bound
		if err := w.Report(noon, map[cover.Shape]int64{plain: cover.MaxCount}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Requests(plain); got != cover.MaxCount {
		t.Errorf("requests: got %d, want %d", got, int64(cover.MaxCount))
	}
}
