package providerapi

import (
	"context"
	"sync"
	"time"

	"svc.internal/pkg/clock"
)

// publicAnswer keeps an answer of a peer that is the same for everybody, so that anybody may ask without asking
// the peer each time.
type publicAnswer[T any] struct {
	ask     func(context.Context) (T, error)
	clock   clock.Clock
	timeout time.Duration

	mu    sync.Mutex
	known bool
	last  T
	at    time.Time
}

// publicFor is how long an answer counts as fresh. While the peer does not answer, an older one is given.
const publicFor = time.Minute

// read returns the answer, or the fault of the peer. One call asks at a time.
func (k *publicAnswer[T]) read(ctx context.Context) (T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if k.known && now.Sub(k.at) < publicFor {
		return k.last, nil
	}
	called, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	resp, err := k.ask(called)
	switch {
	case err == nil:
		k.known, k.last, k.at = true, resp, now
	case k.known:
		k.at = now.Add(-publicFor * 9 / 10) // asked again soon, and not by every call
	default:
		return resp, err
	}
	return k.last, nil
}
