package demand

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
)

// record is one settled request.
type record struct {
	at    time.Time
	model string
	sum   Sum
}

// history is a store in memory.
type history struct {
	mu      sync.Mutex
	clock   *clock.Manual
	records []record
	reads   int
	read    time.Duration // how much time was read
	err     error
	block   chan struct{}
	each    func()
}

func (h *history) Now(context.Context) (time.Time, error) { return h.clock.Now(), nil }

func (h *history) Settled(ctx context.Context, from, until time.Time, limit int) (map[string]Sum, error) {
	if h.block != nil {
		<-h.block
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if limit != MaxModels || !until.After(from) || until.Sub(from) > pieceOf {
		return nil, errors.New("asked for too much")
	}
	h.reads++
	h.read += until.Sub(from)
	if h.each != nil {
		h.each()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if h.err != nil {
		return nil, h.err
	}
	sums := map[string]Sum{}
	for _, r := range h.records {
		if !r.at.Before(from) && r.at.Before(until) {
			sums[r.model] = sums[r.model].plus(r.sum)
		}
	}
	return sums, nil
}

func begin(at time.Time) (*history, *Cache) {
	h := &history{clock: clock.NewManual(at)}
	return h, NewCache(h, h.clock)
}

var noon = time.Date(2026, 11, 21, 12, 34, 56, 789_000, time.UTC)

// TestADaysSumIsThatOfItsRequests lets time pass, with requests that settle
// late by up to the lag, and compares each sum with a plain one.
func TestADaysSumIsThatOfItsRequests(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	h, b := begin(noon)
	for round := range 60 {
		now := h.clock.Now()
		for range 200 {
			back := time.Duration(rnd.Int64N(int64(50 * time.Hour)))
			if round > 0 {
				// Transactions are over within ten minutes.
				back = time.Duration(rnd.Int64N(int64(10 * time.Minute)))
			}
			h.records = append(h.records, record{now.Add(-back), "m" + strconv.Itoa(rnd.IntN(5)), Sum{
				Requests: 1, Tokens: rnd.Int64N(1000), Revenue: money.NanoUSD(rnd.Int64N(1000)),
				Payout:  money.NanoUSD(rnd.Int64N(1000)),
				Latency: time.Duration(rnd.Int64N(int64(time.Minute))), Timed: 1,
			}})
		}
		got, err := b.Models(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last, before := map[string]Sum{}, map[string]Sum{}
		for _, r := range h.records {
			switch age := now.Sub(r.at); {
			case age > 0 && age <= window:
				last[r.model] = last[r.model].plus(r.sum)
			case age > window && age <= 2*window:
				before[r.model] = before[r.model].plus(r.sum)
			}
		}
		if want := rank(last, before); !slices.Equal(got, want) {
			t.Fatalf("round %d: %+v, want %+v", round, got, want)
		}
		h.clock.Advance(goodFor + time.Duration(rnd.Int64N(int64([]time.Duration{time.Minute, 2 * time.Hour}[round%2]))))
	}
}

func TestASecondSumReadsAFewMinutes(t *testing.T) {
	h, b := begin(noon)
	if _, err := b.Models(t.Context()); err != nil || h.read != 2*window {
		t.Fatalf("the first sum reads %s, %v", h.read, err)
	}
	h.read = 0
	for range 100 {
		if _, err := b.Models(t.Context()); err != nil || h.read != 0 {
			t.Fatalf("within five minutes it reads %s, %v", h.read, err)
		}
	}
	h.clock.Advance(goodFor)
	if _, err := b.Models(t.Context()); err != nil || h.read > 40*time.Minute || h.read == 0 {
		t.Errorf("the second sum reads %s, %v", h.read, err)
	}
	h.read = 0
	const days = 3
	for range days * window / goodFor {
		h.clock.Advance(goodFor)
		if _, err := b.Models(t.Context()); err != nil {
			t.Fatal(err)
		}
		if hours, pieces := len(b.hours), len(b.pieces); hours > 49 || pieces > 50 {
			t.Fatalf("%d hours and %d pieces are remembered", hours, pieces)
		}
	}
	// The last minutes are read some times over, two hours once more each.
	if h.read > 8*days*window {
		t.Errorf("in three days %s are read", h.read)
	}
	h.clock.Advance(-50 * time.Hour)
	h.read = 0
	if _, err := b.Models(t.Context()); err != nil || h.read == 0 {
		t.Errorf("when the clock was set back it reads %s, %v", h.read, err)
	}
}

func TestOneSumsAndTheOthersWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := begin(noon)
		h.block = make(chan struct{})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := b.Models(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Models(ctx); !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("who waits too long: %v", err)
		}
		close(h.block)
		all.Wait()
		if h.read != 2*window {
			t.Errorf("twenty callers read %s", h.read)
		}
	})
}

func TestAFailureIsNotTriedAgainAtOnceAndWhatWasReadIsKept(t *testing.T) {
	h, b := begin(noon)
	if _, err := b.Models(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.clock.Advance(keptFor)
	h.err, h.reads = errors.New("too slow"), 0
	for range 3 {
		_, err := b.Models(t.Context())
		if f, ok := fault.As(err); !ok || f.Kind != fault.Unavailable || f.RetryAfter <= 0 {
			t.Errorf("a sum that cannot be made: %v", err)
		}
	}
	if h.reads != 1 {
		t.Errorf("%d reads", h.reads)
	}
	h.clock.Advance(pauseAfter)
	h.err, h.read = nil, 0
	if _, err := b.Models(t.Context()); err != nil || h.read > 4*time.Hour {
		t.Errorf("after a pause it reads %s, %v", h.read, err)
	}
}

func TestTheLastSumStandsInForAnHour(t *testing.T) {
	h, b := begin(noon)
	h.records = []record{{noon.Add(-time.Hour), "m", Sum{Requests: 1}}}
	made, err := b.Models(t.Context())
	if err != nil || len(made) != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	h.err = errors.New("too slow")
	// The second of them finds that it has just failed.
	for _, age := range []time.Duration{goodFor, 0, 49 * time.Minute, 6*time.Minute - 1} {
		h.clock.Advance(age)
		if last, err := b.Models(t.Context()); err != nil || !slices.Equal(last, made) {
			t.Errorf("%s later: %+v, %v", age, last, err)
		}
	}
	h.clock.Advance(time.Nanosecond)
	if _, err := b.Models(t.Context()); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("an hour later: %v", err)
	}
}

// The store fails at first.
func TestTheFirstSumIsMadeBeforeAnybodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{clock: clock.NewManual(noon), err: errors.New("too slow")}
		b := NewCache(h, clock.System)
		done := make(chan struct{})
		go func() { defer close(done); b.Run(t.Context()) }()
		synctest.Wait()
		h.mu.Lock()
		h.err, h.read = nil, 0
		h.mu.Unlock()
		<-done
		if h.read == 0 || !b.made {
			t.Errorf("%s was read; made: %t", h.read, b.made)
		}
	})
}

// TestWhoGivesUpLeavesWhatWasReadToTheNext has callers that wait for seven pieces
// each.
func TestWhoGivesUpLeavesWhatWasReadToTheNext(t *testing.T) {
	h, b := begin(noon)
	calls := 0
	for {
		h.reads = 0
		ctx, cancel := context.WithCancel(t.Context())
		h.each = func() {
			if h.reads == 7 {
				cancel()
			}
		}
		_, err := b.Models(ctx)
		cancel()
		if calls++; err == nil {
			break
		}
		if calls > 1000 {
			t.Fatal("nothing comes of it")
		}
	}
	if maxCalls := int(2*window/pieceOf)/3 + 10; calls > maxCalls {
		t.Errorf("it took %d callers, want %d at most", calls, maxCalls)
	}
}

func TestTheMostAskedForAreListed(t *testing.T) {
	last, before := map[string]Sum{}, map[string]Sum{}
	for i := range MaxModels + 10 {
		last[strconv.Itoa(i)] = Sum{Requests: int64(i)}
	}
	before["gone"] = Sum{Requests: 5}
	models := rank(last, before)
	if len(models) != MaxModels || models[0].ID != strconv.Itoa(MaxModels+9) {
		t.Errorf("%d models, the first is %+v", len(models), models[0])
	}
	if small := rank(map[string]Sum{"b": {Requests: 1}, "a": {Requests: 1}}, maps.Clone(before)); len(small) != 3 ||
		small[0].ID != "a" || small[2] != (Model{ID: "gone", Before: 5}) {
		t.Errorf("%+v", small)
	}
	if m := (Model{Sum: Sum{Latency: 3 * time.Second, Timed: 2}}); m.MeanLatency() != 1500*time.Millisecond ||
		(Model{}).MeanLatency() != 0 {
		t.Errorf("the mean is %s", m.MeanLatency())
	}
}
