package connection

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

const (
	// warmUpInterval is the least pause between two warm-ups of a model. Within it the
	// last outcome is reported again.
	warmUpInterval = time.Minute
	// warmUpTimeout bounds one warm-up, because large models take minutes to load.
	warmUpTimeout = 5 * time.Minute
	// maxWarmUps bounds the warm-ups that wait for their turn.
	maxWarmUps = 16
)

var (
	errManyWarmUps = errors.New("too many warm-ups wait already")
	errNotServed   = errors.New("the model is not served here")
	errNoWarmUps   = errors.New("the agent does not take warm-ups")
)

// Warm loads a model.
type Warm func(ctx context.Context, modelID string) error

// warmer loads models, one at a time, over all sessions. It is safe for
// concurrent use.
type warmer struct {
	warm  Warm
	clock clock.Clock
	turn  chan struct{} // holds one while a model is loaded

	mu      sync.Mutex
	waiting int
	last    map[string]warmth
}

// warmth is the outcome of a model's last warm-up.
type warmth struct {
	at  time.Time
	err error
}

func newWarmer(warm Warm, c clock.Clock) *warmer {
	return &warmer{warm: warm, clock: c, turn: make(chan struct{}, 1), last: map[string]warmth{}}
}

// enter reserves a place, which load gives back. It reports whether there was one.
func (w *warmer) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting >= maxWarmUps {
		return false
	}
	w.waiting++
	return true
}

// load waits for its turn and loads a model, which must be offered.
func (w *warmer) load(ctx context.Context, model string) (took time.Duration, err error) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting--
	}()
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, errLost
	}
	defer func() { <-w.turn }()
	began := w.clock.Now()
	w.mu.Lock()
	last, known := w.last[model]
	w.mu.Unlock()
	if known && began.Sub(last.at) < warmUpInterval {
		return 0, last.err
	}
	loading, cancel := context.WithTimeout(ctx, warmUpTimeout)
	defer cancel()
	err = w.warm(loading, model)
	now := w.clock.Now()
	// A session that ended is not the model's failure.
	if err == nil || ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last[model] = warmth{at: now, err: err}
	}
	return now.Sub(began), err
}

// onWarmupLocked loads a model beside all requests.
func (s *session) onWarmupLocked(model string) {
	switch {
	case s.warmer == nil:
		s.pushLocked(warmupResult(model, 0, errNoWarmUps))
	case !s.slots.offered(model):
		s.pushLocked(warmupResult(model, 0, errNotServed))
	case !s.warmer.enter():
		s.pushLocked(warmupResult(model, 0, errManyWarmUps))
	default:
		s.warming++
		s.work.Go(func() {
			took, err := s.warmer.load(s.ctx, model)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pushLocked(warmupResult(model, took, err))
			s.warming--
			s.signal() // it may have been the last warm-up that held the session
		})
	}
}

func warmupResult(model string, took time.Duration, err error) *agentv2.Frame {
	result := &agentv2.WarmupResult{
		ModelId: cut(clean(model), maxError), Success: err == nil, LoadTimeMs: took.Milliseconds(),
		NotTried: errors.Is(err, errManyWarmUps) || errors.Is(err, errNoWarmUps) || errors.Is(err, errNotServed) ||
			errors.Is(err, errLost),
	}
	if err != nil {
		result.Error = cut(clean(err.Error()), maxError)
	}
	return &agentv2.Frame{Body: &agentv2.Frame_WarmupResult{WarmupResult: result}}
}
