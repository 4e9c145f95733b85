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
	busy    bool // FirstSettled says that requests were settled from the beginning on
	lost    bool // FirstSettled fails
}

func (h *history) Now(context.Context) (time.Time, error) { return h.clock.Now(), nil }

func (h *history) FirstSettled(_ context.Context, from time.Time) (time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost {
		return time.Time{}, errors.New("lost")
	} else if h.busy {
		return from, nil
	}
	var first time.Time
	for _, r := range h.records {
		if !r.at.Before(from) && (first.IsZero() || r.at.Before(first)) {
			first = r.at
		}
	}
	return first, nil
}

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
	h := &history{clock: clock.NewManual(at), busy: true}
	return h, NewCache(h, h.clock)
}

var noon = time.Date(2026, 11, 21, 12, 34, 56, 789_000, time.UTC)

// TestADaysSumIsThatOfItsRequests lets time pass, with requests that settle
// late by up to the lag, and compares each sum with a plain one. A ledger begins with two
// days of requests, with few, and with none.
func TestADaysSumIsThatOfItsRequests(t *testing.T) {
	for _, old := range []time.Duration{50 * time.Hour, 3 * time.Hour, 0} {
		t.Run(old.String(), func(t *testing.T) { daysSumIsThatOfItsRequests(t, old) })
	}
}

func daysSumIsThatOfItsRequests(t *testing.T, old time.Duration) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	h, b := begin(noon)
	h.busy = false
	for round := range 60 {
		now := h.clock.Now()
		for range 200 {
			if round == 0 && old == 0 {
				break
			}
			back := time.Duration(rnd.Int64N(int64(max(old, 1))))
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
			switch age := now.Add(-closeLag).Truncate(time.Hour).Sub(r.at); {
			case age > 0 && age <= window:
				last[r.model] = last[r.model].plus(r.sum)
			case age > window && age <= 2*window:
				before[r.model] = before[r.model].plus(r.sum)
			}
		}
		if want := rank(last, before); !slices.Equal(got, want) {
			t.Fatalf("round %d: got %+v, want %+v", round, got, want)
		}
		h.clock.Advance(goodFor + time.Duration(rnd.Int64N(int64([]time.Duration{time.Minute, 2 * time.Hour}[round%2]))))
	}
}

// TestAFirstSumBeginsWithTheFirstRequest, because a new ledger, which has settled nothing
// yet, would read two days of it in 577 pieces.
func TestAFirstSumBeginsWithTheFirstRequest(t *testing.T) {
	h, b := begin(noon)
	h.busy = false
	if _, err := b.Models(t.Context()); err != nil {
		t.Fatalf("nothing was settled: got the error %v, want none", err)
	} else if h.reads != 0 {
		t.Fatalf("nothing was settled: reads: got %d, want 0", h.reads)
	}
	h, b = begin(noon)
	h.busy = false
	h.records = []record{
		{noon.Add(-2*window - time.Hour), "old", Sum{Requests: 1}},
		{noon.Add(-time.Hour), "new", Sum{Requests: 1}},
		{noon.Truncate(time.Hour), "of an hour that is not over", Sum{Requests: 1}},
	}
	models, err := b.Models(t.Context())
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if want := []Model{{ID: "new", Sum: Sum{Requests: 1}}}; !slices.Equal(models, want) {
		t.Errorf("models: got %+v, want %+v", models, want)
	}
	if most := time.Hour + 2*pieceOf; h.read > most {
		t.Errorf("read: got %v, want at most %v", h.read, most)
	}
}

func TestNothingIsSummedWithoutTheFirstRequest(t *testing.T) {
	h, b := begin(noon)
	h.lost = true
	if _, err := b.Models(t.Context()); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("got the error %v, want service_unavailable", err)
	}
	if h.reads != 0 {
		t.Errorf("reads: got %d, want 0", h.reads)
	}
}

func TestASecondSumReadsWhatWasClosedSince(t *testing.T) {
	h, b := begin(noon)
	if _, err := b.Models(t.Context()); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if h.read != 2*window {
		t.Fatalf("the first sum reads: got %v, want %v", h.read, 2*window)
	}
	h.read = 0
	for range 100 {
		if _, err := b.Models(t.Context()); err != nil {
			t.Fatalf("got the error %v, want none", err)
		} else if h.read != 0 {
			t.Fatalf("within five minutes it reads: got %v, want 0", h.read)
		}
	}
	h.clock.Advance(goodFor)
	if _, err := b.Models(t.Context()); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if h.read != 0 {
		t.Errorf("a second sum of the same hours reads: got %v, want 0", h.read)
	}
	h.clock.Advance(time.Hour)
	if _, err := b.Models(t.Context()); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if h.read != time.Hour {
		t.Errorf("an hour later it reads: got %v, want %v", h.read, time.Hour)
	}
	h.read = 0
	const days = 3
	for range days * window / goodFor {
		h.clock.Advance(goodFor)
		if _, err := b.Models(t.Context()); err != nil {
			t.Fatal(err)
		}
		if hours, pieces := len(b.hours), len(b.pieces); hours > 49 {
			t.Fatalf("%d hours and %d pieces are remembered: hours: got %d, want at most 49", hours, pieces, hours)
		} else if pieces > 50 {
			t.Fatalf("%d hours and %d pieces are remembered: pieces: got %d, want at most 50", hours, pieces, pieces)
		}
	}
	if h.read > days*window {
		t.Errorf("in three days it reads: got %v, want at most %v", h.read, days*window)
	}
	h.clock.Advance(-50 * time.Hour)
	h.read = 0
	if _, err := b.Models(t.Context()); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if h.read == 0 {
		t.Error("when the clock was set back it reads: got 0, want any but 0")
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
			t.Errorf("who waits too long: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
		}
		close(h.block)
		all.Wait()
		if h.read != 2*window {
			t.Errorf("twenty callers read: got %v, want %v", h.read, 2*window)
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
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("a sum that cannot be made: got the error %v, want a fault", err)
		case f.Kind != fault.Unavailable:
			t.Errorf("a sum that cannot be made: f.Kind: got %d, want %d", f.Kind, fault.Unavailable)
		case f.RetryAfter <= 0:
			t.Errorf("a sum that cannot be made: f.RetryAfter: got %v, want more than 0", f.RetryAfter)
		}
	}
	if h.reads != 1 {
		t.Errorf("reads: got %d, want 1", h.reads)
	}
	h.clock.Advance(pauseAfter)
	h.err, h.read = nil, 0
	if _, err := b.Models(t.Context()); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if h.read > 4*time.Hour {
		t.Errorf("after a pause it reads: got %v, want at most %v", h.read, 4*time.Hour)
	}
}

func TestTheLastSumStandsInForAnHour(t *testing.T) {
	h, b := begin(noon)
	h.records = []record{{noon.Add(-time.Hour), "m", Sum{Requests: 1}}}
	made, err := b.Models(t.Context())
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(made) != 1 {
		t.Fatalf("len(made): got %d, want 1, in %+v", len(made), made)
	}
	h.lost = true
	// The second of them finds that it has just failed.
	for _, age := range []time.Duration{goodFor, 0, 49 * time.Minute, 6*time.Minute - 1} {
		h.clock.Advance(age)
		if last, err := b.Models(t.Context()); err != nil {
			t.Errorf("%s later: got the error %v, want none", age, err)
		} else if !slices.Equal(last, made) {
			t.Errorf("%s later: last: got %+v, want %+v", age, last, made)
		}
	}
	h.clock.Advance(time.Nanosecond)
	if _, err := b.Models(t.Context()); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("an hour later: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
}

// The store fails at first.
func TestTheFirstSumIsMadeBeforeAnybodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{clock: clock.NewManual(noon), err: errors.New("too slow"), busy: true}
		b := NewCache(h, clock.System)
		done := make(chan struct{})
		go func() { defer close(done); b.Run(t.Context()) }()
		synctest.Wait()
		h.mu.Lock()
		h.err, h.read = nil, 0
		h.mu.Unlock()
		<-done
		if h.read == 0 {
			t.Error("h.read: got 0, want any but 0")
		} else if !b.made {
			t.Error("b.made: got false, want true")
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
			t.Fatalf("calls until one is answered: got %d, want at most 1000", calls)
		}
	}
	if maxCalls := int(2*window/pieceOf)/3 + 10; calls > maxCalls {
		t.Errorf("it took: got %d callers, want %d at most", calls, maxCalls)
	}
}

func TestTheMostAskedForAreListed(t *testing.T) {
	last, before := map[string]Sum{}, map[string]Sum{}
	for i := range MaxModels + 10 {
		last[strconv.Itoa(i)] = Sum{Requests: int64(i)}
	}
	before["gone"] = Sum{Requests: 5}
	models := rank(last, before)
	if len(models) != MaxModels {
		t.Errorf("len(models): got %d, want %d", len(models), MaxModels)
	} else if models[0].ID != strconv.Itoa(MaxModels+9) {
		t.Errorf("models[0].ID: got %q, want %q", models[0].ID, strconv.Itoa(MaxModels+9))
	}
	switch small := rank(map[string]Sum{"b": {Requests: 1}, "a": {Requests: 1}}, maps.Clone(before)); {
	case len(small) != 3:
		t.Errorf("len(small): got %d, want 3, in %+v", len(small), small)
	case small[0].ID != "a":
		t.Errorf(`small[0].ID: got %q, want "a"`, small[0].ID)
	case small[2] != (Model{ID: "gone", Before: 5}):
		t.Errorf("small[2]: got %+v, want %+v", small[2], Model{ID: "gone", Before: 5})
	}
	if m := (Model{Sum: Sum{Latency: 3 * time.Second, Timed: 2}}); m.MeanLatency() != 1500*time.Millisecond {
		t.Errorf("the mean: got %v, want %v", m.MeanLatency(), 1500*time.Millisecond)
	} else if got := (Model{}).MeanLatency(); got != 0 {
		t.Errorf("(Model{}).MeanLatency(): got %v, want 0", got)
	}
}
