// Package demand sums up the demand for each model in the 24 hours up to the last whole hour
// that is closed and in the 24 before them, from the requests that were settled then, orphan
// work included. So its sums change once an hour. The time of settling decides. A request that is settled
// more than two days late is in no sum.
// Revenue is what was charged from credit, so a request that a plan covers adds none.
//
// A sum is valid for five minutes. One caller makes it, and the others wait for it. It is
// made of pieces of at most five minutes. A span that ended more than ten minutes ago
// never changes, because requests are settled at the database's present time by
// transactions far shorter than that. So pieces are remembered, and whole hours later
// take their place. Only the first sum reads two days, from the time at which the first
// request of these days was settled. Each later sum reads at most the hours that were
// closed since.
//
// A caller that gives up leaves the pieces that it has read to the next caller, so the
// first sum may take longer than any caller waits. Run makes the first sum before anybody
// asks. When no new sum can be made, the last sum is given until it is an hour old, and
// after that the error is service_unavailable.
//
// Bounds: 10,000 models in each of 49 hours and some 50 pieces. A piece takes about 4
// microseconds of the database for each request (BenchmarkAnHourOfDemand), and no
// statement takes more than 3 s.
package demand

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
)

// MaxModels bounds the models of a sum; the models with the most requests are in it.
const MaxModels = 10_000

const (
	window   = 24 * time.Hour
	goodFor  = 5 * time.Minute
	keptFor  = time.Hour
	closeLag = 10 * time.Minute
	pieceOf  = 5 * time.Minute
	// pauseAfter is the pause after a failure.
	pauseAfter = 5 * time.Second
	// firstPatience bounds one try of Run.
	firstPatience = time.Minute
)

// Sum is the settled demand for one model in a span of time.
type Sum struct {
	Requests int64
	// Tokens of prompts and completions, for models that are priced by tokens.
	Tokens  int64
	Revenue money.NanoUSD
	Payout  money.NanoUSD
	// Latency is the sum over the Timed requests, from dispatch to the end.
	Latency time.Duration
	Timed   int64
}

func (s Sum) plus(o Sum) Sum {
	return Sum{
		Requests: s.Requests + o.Requests, Tokens: s.Tokens + o.Tokens,
		Revenue: s.Revenue + o.Revenue, Payout: s.Payout + o.Payout,
		Latency: s.Latency + o.Latency, Timed: s.Timed + o.Timed,
	}
}

// Model is the demand for one model.
type Model struct {
	ID string
	// Sum is of the last 24 hours. Before is the number of requests in the 24 hours
	// before them.
	Sum
	Before int64
}

// MeanLatency is 0 when nothing was timed.
func (m Model) MeanLatency() time.Duration {
	if m.Timed == 0 {
		return 0
	}
	return m.Latency / time.Duration(m.Timed)
}

// Store sums settled requests.
type Store interface {
	// Now is the clock by which requests are settled.
	Now(ctx context.Context) (time.Time, error)
	// FirstSettled returns the earliest time of settling at or after from, or the zero
	// time if nothing was settled since. Settled finds no request between from and that
	// time.
	FirstSettled(ctx context.Context, from time.Time) (time.Time, error)
	// Settled sums, by model, what was settled in [from, until), of at most limit models,
	// within a bounded time.
	Settled(ctx context.Context, from, until time.Time, limit int) (map[string]Sum, error)
}

// Cache answers gateways. It is safe for concurrent use.
type Cache struct {
	store Store
	clock clock.Clock
	// turn is held while the fields below are read or written.
	turn chan struct{}

	// hours and pieces are keyed by their beginning.
	hours  map[time.Time]map[string]Sum
	pieces map[time.Time]map[string]Sum
	// first is when the first request of the sum that is being made was settled. It is
	// zero when there is none.
	first    time.Time
	models   []Model
	madeAt   time.Time
	made     bool
	failedAt time.Time
	failed   bool
}

// NewCache makes a cache that has read nothing yet.
func NewCache(store Store, clk clock.Clock) *Cache {
	return &Cache{
		store: store, clock: clk, turn: make(chan struct{}, 1),
		hours: map[time.Time]map[string]Sum{}, pieces: map[time.Time]map[string]Sum{},
	}
}

// Run makes the first sum, and tries until it has one or ctx ends.
func (b *Cache) Run(ctx context.Context) {
	for !b.begin(ctx) {
		if clock.Sleep(ctx, pauseAfter) != nil {
			return
		}
	}
}

func (b *Cache) begin(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	_, err := b.Models(ctx)
	return err == nil
}

// Models returns the models with demand, the most requested first. The sum is at most
// five minutes old, or an hour while no new one can be made. The caller must not change
// it.
func (b *Cache) Models(ctx context.Context) ([]Model, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
	}
	switch now := b.clock.Now(); {
	case b.made && within(now.Sub(b.madeAt), goodFor):
		return b.models, nil
	case b.failed && within(now.Sub(b.failedAt), pauseAfter):
		return b.last(now, nil)
	}
	models, err := b.sum(ctx)
	// A caller that gave up proves nothing of the store.
	b.failed = err != nil && ctx.Err() == nil
	if err != nil {
		b.failedAt = b.clock.Now()
		return b.last(b.failedAt, err)
	}
	b.models, b.made, b.madeAt = models, true, b.clock.Now()
	return models, nil
}

// last returns the last sum in place of a sum that cannot be made, unless it is too old.
func (b *Cache) last(now time.Time, cause error) ([]Model, error) {
	if b.made && within(now.Sub(b.madeAt), keptFor) {
		return b.models, nil
	}
	return nil, unavailable(cause)
}

// within reports whether an age is below maxAge. It returns false for a clock that was
// set back.
func within(age, maxAge time.Duration) bool { return age >= 0 && age < maxAge }

func unavailable(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, fault.ServiceUnavailable,
		"what was asked for cannot be summed up now").After(pauseAfter)
}

func (b *Cache) sum(ctx context.Context) ([]Model, error) {
	now, err := b.store.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the time: %w", err)
	}
	end := now.Add(-closeLag).Truncate(time.Hour)
	start, middle := end.Add(-2*window), end.Add(-window)
	over := func(begun time.Time, _ map[string]Sum) bool { return begun.Before(start) || begun.After(now) }
	maps.DeleteFunc(b.hours, over)
	maps.DeleteFunc(b.pieces, over)
	b.first, err = b.store.FirstSettled(ctx, start)
	if err != nil {
		return nil, fmt.Errorf("ask for the first request since %s: %w", start, err)
	}
	before, err := b.between(ctx, start, middle, now)
	if err != nil {
		return nil, err
	}
	last, err := b.between(ctx, middle, end, now)
	if err != nil {
		return nil, err
	}
	return rank(last, before), nil
}

// between sums a span of time from the hours and pieces that lie in it.
func (b *Cache) between(ctx context.Context, from, until, now time.Time) (map[string]Sum, error) {
	total := map[string]Sum{}
	for from.Before(until) {
		read, end := b.piece, earlier(from.Truncate(pieceOf).Add(pieceOf), until)
		if next := from.Add(time.Hour); from.Equal(from.Truncate(time.Hour)) && !next.After(until) {
			read, end = b.hour, next
		}
		sums, err := read(ctx, from, end, now)
		if err != nil {
			return nil, err
		}
		add(total, sums)
		from = end
	}
	return total, nil
}

// hour sums a whole hour. Its pieces are forgotten once it is remembered.
func (b *Cache) hour(ctx context.Context, from, until, now time.Time) (map[string]Sum, error) {
	total, known := b.hours[from]
	if !known {
		total = map[string]Sum{}
		for at := from; at.Before(until); at = at.Add(pieceOf) {
			sums, err := b.piece(ctx, at, at.Add(pieceOf), now)
			if err != nil {
				return nil, err
			}
			add(total, sums)
		}
		if now.Sub(until) < closeLag {
			return total, nil
		}
		b.hours[from] = total
	}
	for at := from; at.Before(until); at = at.Add(pieceOf) {
		delete(b.pieces, at)
	}
	return total, nil
}

// piece sums a span that lies within five minutes of the clock.
func (b *Cache) piece(ctx context.Context, from, until, now time.Time) (map[string]Sum, error) {
	whole := until.Sub(from) == pieceOf
	if known, ok := b.pieces[from]; ok && whole {
		return known, nil
	}
	// Before first nothing was settled. Such a piece is not remembered.
	if b.first.IsZero() || !b.first.Before(until) {
		return nil, nil
	}
	sums, err := b.store.Settled(ctx, from, until, MaxModels)
	if err != nil {
		return nil, fmt.Errorf("sum up from %s until %s: %w", from, until, err)
	}
	if whole && now.Sub(until) >= closeLag {
		b.pieces[from] = sums
	}
	return sums, nil
}

func add(total, more map[string]Sum) {
	for id, s := range more {
		total[id] = total[id].plus(s)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func rank(last, before map[string]Sum) []Model {
	models := make([]Model, 0, len(last))
	for id, s := range last {
		models = append(models, Model{ID: id, Sum: s, Before: before[id].Requests})
	}
	for id, s := range before {
		if _, listed := last[id]; !listed {
			models = append(models, Model{ID: id, Before: s.Requests})
		}
	}
	slices.SortFunc(models, func(a, b Model) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Before, a.Before), cmp.Compare(a.ID, b.ID))
	})
	return slices.Clip(models[:min(len(models), MaxModels)])
}
