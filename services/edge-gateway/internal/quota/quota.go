// Package quota counts calls by network and refuses those beyond a rate.
package quota

import (
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"svc.internal/pkg/address"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/lru"
)

// Rate is how many calls of a kind a network may make within any span of that length.
type Rate struct {
	Calls int
	Span  time.Duration
}

// Quota counts one kind of call by network: exactly, over a span that slides. It
// remembers a bounded number of networks and forgets the network that was heard of least
// recently; a caller with more networks than that is not bound by it.
type Quota struct {
	what string
	rate Rate

	mu    sync.Mutex
	calls *lru.Map[netip.Prefix, []time.Time] // oldest first, at most Rate.Calls
}

// New makes a quota that has counted nothing, for at most so many networks. What names the calls in a refusal.
func New(what string, rate Rate, networks int) *Quota {
	return &Quota{what: what, rate: rate, calls: lru.New[netip.Prefix, []time.Time](networks, nil)}
}

// Take counts a call from an address. It fails with rate_limit_exceeded and the time to
// wait, and does not count the call then.
func (q *Quota) Take(from netip.Addr, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	network := address.Network(from)
	calls, _ := q.calls.Get(network)
	for len(calls) > 0 && now.Sub(calls[0]) >= q.rate.Span {
		calls = calls[1:]
	}
	if len(calls) >= q.rate.Calls {
		return fault.New(fault.Exhausted, fault.RateLimitExceeded, "Too many %s from your address: at most %d within %s.",
			q.what, q.rate.Calls, inWords(q.rate.Span)).After(calls[0].Add(q.rate.Span).Sub(now))
	}
	q.calls.Add(network, append(calls, now))
	return nil
}

// GiveBack uncounts a call that was counted at a time.
func (q *Quota) GiveBack(from netip.Addr, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	network := address.Network(from)
	calls, _ := q.calls.Peek(network)
	if i := slices.Index(calls, at); i >= 0 {
		q.calls.Add(network, slices.Delete(calls, i, i+1))
	}
}

func inWords(span time.Duration) string {
	if span == time.Hour {
		return "an hour"
	}
	if span == time.Minute {
		return "a minute"
	}
	return strconv.Itoa(int(span.Minutes())) + " minutes"
}
