package idempotency

import (
	"container/list"
	"sync"
	"time"
)

// rates bounds how fast each consumer key may send Idempotency-Keys, before
// billing-ledger is asked anything: so many a second, and so many at once. It
// remembers as many consumer keys as it is told and forgets the one that was
// heard of least recently, which then begins anew.
type rates struct {
	interval, burst time.Duration // one more is free after every; burst is all at once
	limit           int

	mu    sync.Mutex
	order *list.List // of *rated, most recent first
	at    map[string]*list.Element
}

// rated is a consumer key; what it has sent is paid off at a time.
type rated struct {
	keyID string
	paid  time.Time
}

func newRates(rate, burst, most int) *rates {
	every := time.Second / time.Duration(rate)
	return &rates{
		interval: every, burst: time.Duration(burst) * every, limit: most,
		order: list.New(), at: map[string]*list.Element{},
	}
}

// take counts a request, or says how long it has to wait. One that has to wait
// costs nothing.
func (r *rates) take(keyID string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.find(keyID)
	if one.paid.Before(now) {
		one.paid = now
	}
	paid := one.paid.Add(r.interval)
	if wait := paid.Sub(now) - r.burst; wait > 0 {
		return wait
	}
	one.paid = paid
	return 0
}

func (r *rates) find(keyID string) *rated {
	if element, ok := r.at[keyID]; ok {
		r.order.MoveToFront(element)
		return element.Value.(*rated)
	}
	if len(r.at) >= r.limit {
		oldest := r.order.Back()
		r.order.Remove(oldest)
		delete(r.at, oldest.Value.(*rated).keyID)
	}
	one := &rated{keyID: keyID}
	r.at[keyID] = r.order.PushFront(one)
	return one
}
