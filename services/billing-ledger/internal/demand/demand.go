// Package demand sums up what was asked for of each model in the last 24 hours,
// and in the 24 before them, from the requests that were settled then.
//
// A sum is good for five minutes and made by one caller at a time, for whom the
// others wait. It is put together from pieces of at most five minutes. What is over
// by more than ten minutes never changes, since requests are settled at the
// database's present time by transactions far shorter than that: pieces are
// remembered, and whole hours in their stead, so that only the first sum reads two
// days. Those after it read the last quarter of an hour or so, and once an hour
// the hours that 24 and 48 hours ago fall into, piece by piece. A caller that gives
// up half-way leaves what it has read to the next, so that a first sum may take
// longer than any of them waits; Run makes it before anybody asks. When a sum
// cannot be made the last is given until it is an hour old.
//
// Bounds: 10,000 models in each of 49 hours and some 50 pieces. A piece takes
// about 4 microseconds of the database for a request (BenchmarkAnHourOfDemand).
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

// MaxModels bounds a sum; those that were asked for most are in it.
const MaxModels = 10_000

const (
	window   = 24 * time.Hour
	goodFor  = 5 * time.Minute
	keptFor  = time.Hour
	closeLag = 10 * time.Minute
	pieceOf  = 5 * time.Minute
	// pauseAfter is how long nobody tries again after it failed.
	pauseAfter = 5 * time.Second
	// firstPatience bounds one try of Run.
	firstPatience = time.Minute
)

// Sum is what was settled of one model in a span of time.
type Sum struct {
	Requests int64
	// Tokens of prompts and completions, where they are what is priced.
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

// Model is how one model was asked for.
type Model struct {
	ID string
	// Sum is of the last 24 hours, Before how many requests were settled in the
	// 24 before them.
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

// Store sums what was settled.
type Store interface {
	// Now is the time that requests are settled at.
	Now(ctx context.Context) (time.Time, error)
	// Settled sums by model what was settled from one moment on and before
	// another, of at most limit models, in a time that is bounded.
	Settled(ctx context.Context, from, until time.Time, limit int) (map[string]Sum, error)
}

// Cache answers gateways. It is safe for concurrent use.
type Cache struct {
	store Store
	clock clock.Clock
	// turn is held by who reads or writes what is below.
	turn chan struct{}

	// hours and pieces are by when they begin.
	hours    map[time.Time]map[string]Sum
	pieces   map[time.Time]map[string]Sum
	models   []Model
	madeAt   time.Time
	made     bool
	failedAt time.Time
	failed   bool
}

// NewCache makes a book that has read nothing yet.
func NewCache(store Store, clk clock.Clock) *Cache {
	return &Cache{
		store: store, clock: clk, turn: make(chan struct{}, 1),
		hours: map[time.Time]map[string]Sum{}, pieces: map[time.Time]map[string]Sum{},
	}
}

// Run makes the first sum, and tries until there is one or ctx ends.
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

// Models are those that were asked for, the most asked for first, not older than
// five minutes, or than an hour while they cannot be had anew. The caller must not
// change them.
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
	// A caller that gave up says nothing of the store.
	b.failed = err != nil && ctx.Err() == nil
	if err != nil {
		b.failedAt = b.clock.Now()
		return b.last(b.failedAt, err)
	}
	b.models, b.made, b.madeAt = models, true, b.clock.Now()
	return models, nil
}

// last is the last sum in place of one that cannot be made, unless it is too old.
func (b *Cache) last(now time.Time, cause error) ([]Model, error) {
	if b.made && within(now.Sub(b.madeAt), keptFor) {
		return b.models, nil
	}
	return nil, unavailable(cause)
}

// within reports whether an age is below maxAge. It is not for a clock that was set
// back.
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
	start, middle := now.Add(-2*window), now.Add(-window)
	over := func(begun time.Time, _ map[string]Sum) bool { return begun.Before(start) || begun.After(now) }
	maps.DeleteFunc(b.hours, over)
	maps.DeleteFunc(b.pieces, over)
	before, err := b.between(ctx, start, middle, now)
	if err != nil {
		return nil, err
	}
	last, err := b.between(ctx, middle, now, now)
	if err != nil {
		return nil, err
	}
	return rank(last, before), nil
}

// between sums a span of time, by hours and pieces as far as they lie in it.
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
