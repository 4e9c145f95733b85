// Package wide measures what one agent's streams cost each other: 63 streams on
// one socket bring an event each 20 ms, and the time between the events that
// their consumers see is kept, while a 64th stream stalls, or a large request
// body goes out on the same socket, and while neither does. The times with and
// without take turns, so that what else the machine does falls on both.
//
// A large body costs CPU in the gateway, too, and all share the same cores. So
// bodies are also sent to another agent: what that adds is not the socket's.
package wide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"inference-bench/internal/hdr"
	"inference-bench/internal/pause"
)

const (
	// Streams are read all the time, each with an event every pace.
	Streams = 63
	pace    = 20 * time.Millisecond
	// calm is how long nothing is kept when a disturbance begins or has ended.
	calm = 300 * time.Millisecond
)

// Models are what agents offer: events at a pace, events as fast as they are
// taken, and a whole answer at once, on the same socket or on another.
const (
	Paced     = "bench-wide-paced"
	Burst     = "bench-wide-burst"
	Answer    = "bench-wide-answer"
	Elsewhere = "bench-wide-elsewhere"
)

// Client makes requests.
type Client struct {
	// Base is the public API with /v1.
	Base, Key string
}

// Bench is what is read of the agent.
type Bench struct {
	client Client
	// sent is how many bytes the agent's last burst has sent.
	sent func() (int64, error)
	gaps atomic.Pointer[hdr.H]
}

// New measures the agent that Serve is in another process.
func New(client Client, sent func() (int64, error)) *Bench {
	return &Bench{client: client, sent: sent}
}

// Gaps are the times between events, in milliseconds: the percentiles of each
// round.
type Gaps struct{ P50, P99 []float64 }

func (g *Gaps) add(h *hdr.H) {
	ms := func(ns float64) float64 { return ns / float64(time.Millisecond) }
	g.P50, g.P99 = append(g.P50, ms(h.Q(0.5))), append(g.P99, ms(h.Q(0.99)))
}

// Over is by how much the 99th percentile is above that of others: the median
// over the rounds, in each of which both had their turn soon after one another.
// ok is false without a round.
func (g Gaps) Over(others Gaps) (added float64, ok bool) {
	var each []float64
	for i := range min(len(g.P99), len(others.P99)) {
		each = append(each, g.P99[i]-others.P99[i])
	}
	return Median(each), len(each) > 0
}

// Median of values, 0 of none.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	default:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
}

// disturbance begins to disturb and returns what ends it. It has begun when it
// returns.
type disturbance func(ctx context.Context) (end func() error, err error)

// undisturbed is the disturbance that is none.
func undisturbed(context.Context) (func() error, error) { return func() error { return nil }, nil }

// Stalled measures without and with a consumer that does not read, rounds times
// each.
func (b *Bench) Stalled(ctx context.Context, rounds int, each time.Duration) (without, with Gaps, err error) {
	all, err := b.measure(ctx, rounds, each, undisturbed, b.stall)
	return all[0], all[1], err
}

// Bodies are the figures of large request bodies.
type Bodies struct {
	// Without has none, Elsewhere has them go to another agent, and Same to the
	// agent of the streams.
	Without, Elsewhere, Same Gaps
	// Count is how many went to the agent of the streams, and P50 how long one
	// request of them took, in milliseconds.
	Count int
	P50   float64
}

// Bodies measures with large request bodies, one after another.
func (b *Bench) Bodies(ctx context.Context, rounds int, each time.Duration, size int) (Bodies, error) {
	same := &poster{client: b.client, body: largeBody(Answer, size)}
	other := &poster{client: b.client, body: largeBody(Elsewhere, size)}
	all, err := b.measure(ctx, rounds, each, undisturbed, other.begin, same.begin)
	r := Bodies{Without: all[0], Elsewhere: all[1], Same: all[2]}
	r.Count, r.P50 = same.figures()
	return r, err
}

// measure reads the streams while the disturbances take turns, and returns the
// gaps of each.
func (b *Bench) measure(
	ctx context.Context, rounds int, each time.Duration, disturb ...disturbance,
) (all []Gaps, err error) {
	all = make([]Gaps, len(disturb))
	stop, err := b.readAll(ctx)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for n := range rounds * len(disturb) {
		i := turn(n, len(disturb))
		end, err := disturb[i](ctx)
		if err != nil {
			return all, err
		}
		kept := new(hdr.H)
		if err := errors.Join(b.keep(ctx, kept, each), end()); err != nil {
			return all, err
		}
		all[i].add(kept)
	}
	return all, nil
}

// turn is whose turn it is of so many: there and back, so that a drift falls on
// all alike.
func turn(n, of int) int {
	if i := n % of; n/of%2 == 0 {
		return i
	}
	return of - 1 - n%of
}

// keep records gaps for a time, behind calm.
func (b *Bench) keep(ctx context.Context, into *hdr.H, each time.Duration) error {
	if err := pause.For(ctx, calm); err != nil {
		return err
	}
	b.gaps.Store(into)
	err := pause.For(ctx, each)
	b.gaps.Store(nil)
	return err
}

// opening bounds the time until every stream has brought an event.
const opening = 30 * time.Second

// readAll opens the streams and returns when each has brought an event, with
// what ends them and reports whether one broke off.
func (b *Bench) readAll(ctx context.Context) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var readers sync.WaitGroup
	begun, broken := make(chan struct{}, Streams), make(chan error, Streams)
	stop = func() error {
		cancel()
		readers.Wait()
		close(broken)
		var first error
		n := 0
		for err := range broken {
			if n++; first == nil {
				first = err
			}
		}
		if n > 0 {
			return fmt.Errorf("%d of %d streams broke off: %w", n, Streams, first)
		}
		return nil
	}
	for range Streams {
		readers.Go(func() {
			if err := b.read(ctx, begun); err != nil && ctx.Err() == nil {
				broken <- err
			}
		})
	}
	late := time.NewTimer(opening)
	defer late.Stop()
	for n := range Streams {
		select {
		case <-begun:
		case <-late.C:
			return nil, errors.Join(fmt.Errorf("%d of %d streams have begun after %v", n, Streams, opening), stop())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), stop())
		}
	}
	return stop, nil
}
