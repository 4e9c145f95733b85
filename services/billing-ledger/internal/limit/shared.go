package limit

import (
	"context"
	"sync"

	"svc.internal/pkg/fault"
)

// Shared are places that no key has for itself: of the calls of one key a few
// work or wait for a place, and the others wait outside, so that those of
// another key are behind a few of each at most. It is safe for concurrent use.
type Shared[K comparable] struct {
	places        *Slots
	each, waiting int

	mu    sync.Mutex
	lines map[K]*queue // of keys that have calls
}

// queue is the calls of one key.
type queue struct {
	inside *Slots
	calls  int
}

// Share makes n places, for which each calls of a key may stand at a time while
// waiting more of them wait.
func Share[K comparable](n, each, waiting int) *Shared[K] {
	return &Shared[K]{places: NewSlots(n), each: each, waiting: waiting, lines: map[K]*queue{}}
}

// Do runs fn in a place. Without one in time, or when too many calls of the key
// wait, it fails with service_unavailable, and fn has not run.
func (s *Shared[K]) Do(ctx context.Context, key K, fn func() error) error {
	l := s.enter(key)
	if l == nil {
		return fault.New(fault.Unavailable, fault.ServiceUnavailable, "too many calls of one key wait for the store").After(
			retryAfter)
	}
	defer s.leave(key, l)
	return l.inside.Do(ctx, func() error { return s.places.Do(ctx, fn) })
}

// enter is nil when the key has all the calls that it may have.
func (s *Shared[K]) enter(key K) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[key]
	if l == nil {
		l = &queue{inside: NewSlots(s.each)}
		s.lines[key] = l
	}
	if l.calls == s.each+s.waiting {
		return nil
	}
	l.calls++
	return l
}

func (s *Shared[K]) leave(key K, l *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.calls--; l.calls == 0 {
		delete(s.lines, key)
	}
}
