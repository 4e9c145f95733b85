// Package shapes counts what chat requests look like beside their text, for the verifier,
// whose hidden probes must not look otherwise.
//
// A shape is whether a request is streamed, greedy, asks for log-probabilities and has
// tools, and the size class of its prompt: nothing of its text, its consumer, its model or
// its time within the hour. Counts of an hour are published when it is over, and a shape
// that fewer than 20 requests had is left out, so that a report never describes a few
// requests. Counting neither locks nor allocates. What a gateway that is killed has counted
// since its last report is lost.
package shapes

import (
	"context"
	"log/slog"
	"math/bits"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/clock"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

const (
	// Fewest is how many requests a shape must have had in the hour to be published.
	Fewest = 20
	// MaxLength is the size class of all prompts of 4,194,304 tokens and more.
	MaxLength = 23
	// interval is the time between two looks at the clock.
	interval = time.Minute
	// maxWaiting bounds the reports that could not be published yet, an hour each.
	maxWaiting = 24
)

// Shape is what a request looks like.
type Shape struct {
	// Greedy is temperature 0, written by the consumer.
	Streamed, Greedy, Logprobs, Tools bool
	// PromptTokens is the gateway's estimate.
	PromptTokens int64
}

// cell is the number of a shape's cell.
func (s Shape) cell() int {
	n := min(bits.Len64(uint64(max(s.PromptTokens, 0))), MaxLength) << 4
	for i, flag := range []bool{s.Streamed, s.Greedy, s.Logprobs, s.Tools} {
		if flag {
			n |= 1 << i
		}
	}
	return n
}

const cells = (MaxLength + 1) << 4

// Counter counts shapes. It is safe for concurrent use.
type Counter struct {
	publish func(ctx context.Context, report []byte) error
	clock   clock.Clock
	log     *slog.Logger

	counts [cells]atomic.Int64
}

// NewCounter returns a counter that hands its reports to publish.
func NewCounter(
	publish func(ctx context.Context, report []byte) error, c clock.Clock, log *slog.Logger,
) *Counter {
	return &Counter{publish: publish, clock: c, log: log}
}

// Count counts a request.
func (c *Counter) Count(s Shape) { c.counts[s.cell()].Add(1) }

// Run publishes each hour within a minute of its end, until ctx ends, and then what was
// counted of the present hour. What cannot be published waits, for 24 hours at most.
func (c *Counter) Run(ctx context.Context) {
	hour := c.hour()
	var waiting []*eventsv1.ShapeReport
	for range clock.Every(ctx, interval) {
		now := c.hour()
		if now.Equal(hour) {
			continue
		}
		waiting = append(waiting, c.take(hour))
		hour = now
		waiting = c.send(ctx, waiting[max(len(waiting)-maxWaiting, 0):])
	}
	c.send(context.WithoutCancel(ctx), append(waiting, c.take(hour)))
}

func (c *Counter) hour() time.Time { return c.clock.Now().UTC().Truncate(time.Hour) }

// take returns the counts of an hour and begins anew.
func (c *Counter) take(hour time.Time) *eventsv1.ShapeReport {
	report := &eventsv1.ShapeReport{Hour: timestamppb.New(hour)}
	for cell := range c.counts {
		n := c.counts[cell].Swap(0)
		if n < Fewest {
			continue
		}
		report.Shapes = append(report.Shapes, &eventsv1.ShapeCount{
			Streamed: cell&1 != 0, Greedy: cell&2 != 0, Logprobs: cell&4 != 0, Tools: cell&8 != 0,
			PromptLength: uint32(cell >> 4), Requests: n,
		})
	}
	return report
}

// send publishes reports in order and returns the reports that must wait. An hour without a
// shape to publish has no report.
func (c *Counter) send(ctx context.Context, reports []*eventsv1.ShapeReport) []*eventsv1.ShapeReport {
	for i, report := range reports {
		if len(report.GetShapes()) == 0 {
			continue
		}
		data, err := proto.Marshal(report)
		if err == nil {
			err = c.publish(ctx, data)
		}
		if err != nil {
			c.log.WarnContext(ctx, "the shapes of an hour's requests could not be published", "error", err)
			return reports[i:]
		}
	}
	return nil
}
