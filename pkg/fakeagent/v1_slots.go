package fakeagent

import (
	"sync"
	"time"
)

// v1Slots are the agent's own limits: requests in flight altogether and of one
// model, and requests a second.
type v1Slots struct {
	all      chan struct{}
	perModel int
	rate     float64

	mu     *sync.Mutex
	models map[string]chan struct{}
	tokens *v1Bucket
}

// v1Bucket has half a second's worth of requests as its burst.
type v1Bucket struct {
	left float64
	seen time.Time
}

func newV1Slots(all, perModel int, rate float64) v1Slots {
	return v1Slots{
		all: make(chan struct{}, all), perModel: perModel, rate: rate,
		mu: &sync.Mutex{}, models: map[string]chan struct{}{}, tokens: &v1Bucket{left: rate / 2, seen: time.Now()},
	}
}

// take waits for a slot. It returns a refusal, or how to give the slot back,
// or neither when gone was closed first.
func (s v1Slots) take(gone <-chan struct{}, model string, wait time.Duration) (release func(), refusal string) {
	if !s.allowed() {
		return nil, "provider rate limit exceeded, please retry later"
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	own := s.of(model)
	var taken []chan struct{}
	free := func() {
		for _, c := range taken {
			<-c
		}
	}
	for _, c := range []chan struct{}{s.all, own} {
		select {
		case c <- struct{}{}:
			taken = append(taken, c)
		case <-timer.C:
			free()
			return nil, "provider concurrency limit reached"
		case <-gone:
			free()
			return nil, ""
		}
	}
	return free, ""
}

func (s v1Slots) of(model string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.models[model] == nil {
		s.models[model] = make(chan struct{}, s.perModel)
	}
	return s.models[model]
}

func (s v1Slots) allowed() bool {
	if s.rate < 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.tokens.left = min(s.rate/2, s.tokens.left+now.Sub(s.tokens.seen).Seconds()*s.rate)
	s.tokens.seen = now
	if s.tokens.left < 1 {
		return false
	}
	s.tokens.left--
	return true
}
