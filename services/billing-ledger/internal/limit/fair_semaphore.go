package limit

import (
	"context"
	"sync"

	"svc.internal/pkg/fault"
)

// FairSemaphore is a Semaphore that no key keeps from the others. A few calls of one key
// work or wait for a place, and its other calls wait outside, so the calls of another key
// wait behind a few calls of each key. It is safe for concurrent use.
type FairSemaphore[K comparable] struct {
	places        *Semaphore
	each, waiting int

	mu     sync.Mutex
	queues map[K]*queue // of keys that have calls
}

// queue is the calls of one key.
type queue struct {
	inside *Semaphore
	calls  int
}

// NewFairSemaphore lets n calls work at a time. Of each key, each calls work or wait for
// a place, and waiting more calls wait outside.
func NewFairSemaphore[K comparable](n, each, waiting int) *FairSemaphore[K] {
	return &FairSemaphore[K]{places: NewSemaphore(n), each: each, waiting: waiting, queues: map[K]*queue{}}
}

// Do runs fn in a place. When no place is free in time, or too many calls of the key
// wait, it fails with service_unavailable and fn has not run.
func (s *FairSemaphore[K]) Do(ctx context.Context, key K, fn func() error) error {
	q := s.enter(key)
	if q == nil {
		return fault.New(fault.Unavailable, fault.ServiceUnavailable, "too many calls of one key wait for the store").After(
			retryAfter)
	}
	defer s.leave(key, q)
	return q.inside.Do(ctx, func() error { return s.places.Do(ctx, fn) })
}

// enter returns nil when the key has all the calls that it may have.
func (s *FairSemaphore[K]) enter(key K) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	if q == nil {
		q = &queue{inside: NewSemaphore(s.each)}
		s.queues[key] = q
	}
	if q.calls == s.each+s.waiting {
		return nil
	}
	q.calls++
	return q
}

func (s *FairSemaphore[K]) leave(key K, q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.calls--; q.calls == 0 {
		delete(s.queues, key)
	}
}
