package providerapi

import (
	"context"
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

// quota counts one kind of call by network: exactly, over a span that slides. It
// remembers a bounded number of networks and forgets the network that was heard of least
// recently; a caller with more networks than that is not bound by it.
type quota struct {
	what string
	rate Rate

	mu    sync.Mutex
	calls *lru.Map[netip.Prefix, []time.Time] // oldest first, at most Rate.Calls
}

func newQuota(what string, rate Rate, networks int) *quota {
	return &quota{what: what, rate: rate, calls: lru.New[netip.Prefix, []time.Time](networks, nil)}
}

// take counts a call from an address. It fails with rate_limit_exceeded and the time to
// wait, and does not count the call then.
func (q *quota) take(from netip.Addr, now time.Time) error {
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

// giveBack uncounts a call that was counted at a time.
func (q *quota) giveBack(from netip.Addr, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	network := address.Network(from)
	calls, _ := q.calls.Peek(network)
	if i := slices.Index(calls, at); i >= 0 {
		q.calls.Add(network, slices.Delete(calls, i, i+1))
	}
}

// uncounted are the kinds of failures that cost nothing: a call that was malformed, or that the
// peer could not answer.
var uncounted = []fault.Kind{fault.Invalid, fault.Unavailable}

// counted has a peer asked and counts the call for its network, unless it fails in a kind of
// uncounted.
func (a *API) counted(ctx context.Context, q *quota, c Call, ask func(context.Context) error) error {
	return a.countedBut(ctx, q, c, uncounted, ask)
}

// countedBut is counted with other kinds of failures that are not counted.
func (a *API) countedBut(
	ctx context.Context, q *quota, c Call, free []fault.Kind, ask func(context.Context) error,
) error {
	now := a.peers.Clock.Now()
	if err := q.take(c.From, now); err != nil {
		return err
	}
	err := a.asked(ctx, ask)
	if f, ok := fault.As(err); ok && slices.Contains(free, f.Kind) {
		q.giveBack(c.From, now)
	}
	return err
}

// asked has a peer asked.
func (a *API) asked(ctx context.Context, ask func(context.Context) error) error {
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if err := ask(called); err != nil {
		return ofPeer(ctx, err)
	}
	return nil
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
