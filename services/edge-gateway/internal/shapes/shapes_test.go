package shapes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// taker takes reports, unless it is closed.
type taker struct {
	mu      sync.Mutex
	closed  bool
	reports []*eventsv1.ShapeReport
}

func (r *taker) take(_ context.Context, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("away")
	}
	report := &eventsv1.ShapeReport{}
	if err := proto.Unmarshal(data, report); err != nil {
		return err
	}
	r.reports = append(r.reports, report)
	return nil
}

func (r *taker) close(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = closed
}

func (r *taker) taken() []*eventsv1.ShapeReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports
}

// run runs a counter in a bubble, whose clock begins at midnight.
func run(t *testing.T, test func(t *testing.T, c *Counter, to *taker, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		to := &taker{}
		c := NewCounter(to.take, clock.System, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			c.Run(ctx)
			close(done)
		}()
		synctest.Wait()
		stop := func() {
			cancel()
			<-done
		}
		test(t, c, to, stop)
		stop()
	})
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (c *Counter) times(n int, s Shape) {
	for range n {
		c.Count(s)
	}
}

func TestAnHourIsPublishedWhenItIsOver(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, c *Counter, to *taker, _ func()) {
		began := time.Now().UTC()
		c.times(20, Shape{Streamed: true, Tools: true, PromptTokens: 300})
		c.times(25, Shape{Greedy: true, Logprobs: true, PromptTokens: 511})
		c.times(19, Shape{PromptTokens: 5}) // too few to be published
		wait(59 * time.Minute)
		if got := len(to.taken()); got != 0 {
			t.Fatalf("reports within the hour: got %d, want 0", got)
		}
		wait(2 * time.Minute)
		if got := len(to.taken()); got != 1 {
			t.Fatalf("reports: got %d, want 1", got)
		}
		report := to.taken()[0]
		if got := report.GetHour().AsTime(); !got.Equal(began.Truncate(time.Hour)) {
			t.Errorf("hour: got %v, want %v", got, began.Truncate(time.Hour))
		}
		want := []*eventsv1.ShapeCount{
			{Greedy: true, Logprobs: true, PromptLength: 9, Requests: 25},
			{Streamed: true, Tools: true, PromptLength: 9, Requests: 20},
		}
		if got := len(report.GetShapes()); got != len(want) {
			t.Fatalf("shapes: got %v, want %v", report.GetShapes(), want)
		}
		for i, shape := range report.GetShapes() {
			if !proto.Equal(shape, want[i]) {
				t.Errorf("shape %d: got %v, want %v", i, shape, want[i])
			}
		}
		wait(time.Hour) // an hour without requests has no report
		if got := len(to.taken()); got != 1 {
			t.Errorf("reports after an idle hour: got %d, want 1", got)
		}
	})
}

func TestWhatCouldNotBePublishedWaitsForADay(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, c *Counter, to *taker, _ func()) {
		to.close(true)
		for hour := range 30 {
			c.times(100+hour, Shape{PromptTokens: 1})
			wait(time.Hour)
		}
		to.close(false)
		c.times(500, Shape{PromptTokens: 1})
		wait(time.Hour)
		reports := to.taken()
		if got := len(reports); got != maxWaiting {
			t.Fatalf("reports: got %d, want %d", got, maxWaiting)
		}
		if got := reports[len(reports)-1].GetShapes()[0].GetRequests(); got != 500 {
			t.Errorf("the last report: got %d requests, want 500", got)
		}
	})
}

func TestTheLastHourIsPublishedAtTheEnd(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, c *Counter, to *taker, stop func()) {
		c.times(30, Shape{Streamed: true, PromptTokens: 1 << 40})
		stop()
		if got := len(to.taken()); got != 1 {
			t.Fatalf("reports: got %d, want 1", got)
		}
		if got := to.taken()[0].GetShapes()[0].GetPromptLength(); got != MaxLength {
			t.Errorf("the class of a huge prompt: got %d, want %d", got, MaxLength)
		}
	})
}

func TestEveryShapeHasACellOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[int]Shape{}
	for flags := range 16 {
		for length := range MaxLength + 1 {
			s := Shape{Streamed: flags&1 != 0, Greedy: flags&2 != 0, Logprobs: flags&4 != 0, Tools: flags&8 != 0,
				PromptTokens: int64(1) << length >> 1}
			n := s.cell()
			if n < 0 || n >= cells {
				t.Errorf("%+v: got the cell %d, want one of %d", s, n, cells)
			}
			if other, known := seen[n]; known {
				t.Errorf("%+v and %+v have the cell %d", s, other, n)
			}
			seen[n] = s
		}
	}
	if got := (Shape{PromptTokens: -5}).cell(); got != 0 {
		t.Errorf("a negative estimate: got the cell %d, want 0", got)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	c := &Counter{}
	if got := testing.AllocsPerRun(100, func() { c.Count(Shape{Streamed: true}) }); got != 0 {
		t.Errorf("allocations: got %v, want 0", got)
	}
}
