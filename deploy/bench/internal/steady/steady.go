// Package steady makes requests at a fixed rate, whatever becomes of those
// before, and keeps how long each took from when it was due. At most 1,024 are
// under way; those beyond count as failed.
package steady

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxUnderWay bounds the requests under way.
const maxUnderWay = 1024

// Load is requests that are being made.
type Load struct {
	call func(context.Context) error
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex
	underWay int
	samples  []sample
}

type sample struct {
	due  time.Time
	took time.Duration
	err  error
}

// Start begins to make rate requests a second.
func Start(ctx context.Context, rate float64, call func(context.Context) error) *Load {
	ctx, stop := context.WithCancel(ctx)
	l := &Load{call: call, stop: stop}
	l.wg.Go(func() { l.run(ctx, time.Duration(float64(time.Second)/rate)) })
	return l
}

// Stop makes no more requests and waits for those under way.
func (l *Load) Stop() {
	l.stop()
	l.wg.Wait()
}

func (l *Load) run(ctx context.Context, every time.Duration) {
	due := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		for ; time.Until(due) <= 0; due = due.Add(every) {
			l.begin(context.WithoutCancel(ctx), due)
		}
		timer.Reset(time.Until(due))
	}
}

func (l *Load) begin(ctx context.Context, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.underWay >= maxUnderWay {
		l.samples = append(l.samples, sample{due: due, err: context.DeadlineExceeded})
		return
	}
	l.underWay++
	l.wg.Go(func() {
		err := l.call(ctx)
		took := time.Since(due)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.underWay--
		l.samples = append(l.samples, sample{due, took, err})
	})
}

// Figures say how requests fared.
type Figures struct {
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
	// Fault is the first failure, for people.
	Fault string `json:"fault,omitempty"`
}

// Span is a time with its begin and without its end.
type Span struct{ From, To time.Time }

// During are the figures of requests that were due in any of the spans and have
// ended. Those that failed are among the figures of no latency.
func (l *Load) During(spans ...Span) Figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	var f Figures
	var took []time.Duration
	for _, s := range l.samples {
		if !slices.ContainsFunc(spans, func(x Span) bool { return !s.due.Before(x.From) && s.due.Before(x.To) }) {
			continue
		}
		f.Requests++
		if s.err != nil {
			f.Failed++
			if f.Fault == "" {
				f.Fault = s.err.Error()
			}
			continue
		}
		took = append(took, s.took)
	}
	slices.Sort(took)
	f.P50, f.P99, f.Max = ms(Quantile(took, 0.5)), ms(Quantile(took, 0.99)), ms(Quantile(took, 1))
	return f
}

// Beyond counts the requests that were due in a span and took longer than a
// limit in milliseconds, or failed. It also returns how long after the begin of the
// span the last of these requests was due, and how many of them were due in each second
// of the span.
func (l *Load) Beyond(s Span, limit float64) (n int, last time.Duration, each []int) {
	each = make([]int, int(s.To.Sub(s.From)/time.Second)+1)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.samples {
		if x.due.Before(s.From) || !x.due.Before(s.To) || x.err == nil && ms(x.took) <= limit {
			continue
		}
		n++
		at := x.due.Sub(s.From)
		last = max(last, at)
		each[at/time.Second]++
	}
	return n, last, each
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Quantile is the smallest value that is not below the share q of all, which
// must be sorted; 0 of none.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	at := int(q * float64(n))
	if float64(at) == q*float64(n) {
		at--
	}
	return sorted[min(max(at, 0), n-1)]
}
