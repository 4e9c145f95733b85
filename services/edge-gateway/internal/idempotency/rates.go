package idempotency

import (
	"sync"
	"time"

	"svc.internal/pkg/lru"
)

// rates bounds how fast each consumer key may send Idempotency-Keys, before
// billing-ledger is asked anything: so many in a second, and so many at once. It
// remembers a bounded number of consumer keys and forgets the consumer key that was used
// least recently, which then begins anew.
type rates struct {
	interval, burst time.Duration // one more is allowed after each interval; burst is the span of all that come at once

	mu   sync.Mutex
	paid *lru.Map[string, time.Time] // when the requests of a consumer key are paid off
}

func newRates(rate, burst, keys int) *rates {
	every := time.Second / time.Duration(rate)
	return &rates{
		interval: every, burst: time.Duration(burst) * every,
		paid: lru.New[string, time.Time](keys, nil),
	}
}

// take counts a request and returns 0, or returns how long the request has to wait. A
// request that has to wait is not counted.
func (r *rates) take(keyID string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, _ := r.paid.Get(keyID)
	if from.Before(now) {
		from = now
	}
	paid := from.Add(r.interval)
	if wait := paid.Sub(now) - r.burst; wait > 0 {
		return wait
	}
	r.paid.Add(keyID, paid)
	return 0
}
