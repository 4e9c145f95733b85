package providerapi

import (
	"container/list"
	"context"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"svc.internal/pkg/fault"

	"svc.internal/pkg/address"
)

// Rate is how many calls of a kind an address has within any span of a length.
type Rate struct {
	Calls int
	Span  time.Duration
}

// quota counts one kind of call by network: exactly, over a span that slides. It
// remembers as many networks as it is told and forgets the one that was heard of
// least recently; whoever has so many networks is not bound by this.
type quota struct {
	what     string
	rate     Rate
	networks int

	mu    sync.Mutex
	order *list.List // of *caller, most recent first
	at    map[netip.Prefix]*list.Element
}

// caller is a network and the times of its calls, oldest first, at most Rate.Calls.
type caller struct {
	network netip.Prefix
	calls   []time.Time
}

func newQuota(what string, rate Rate, networks int) *quota {
	return &quota{what: what, rate: rate, networks: networks, order: list.New(), at: map[netip.Prefix]*list.Element{}}
}

// take counts a call from an address. It fails with rate_limit_exceeded and the time
// to wait; such a call is not counted.
func (q *quota) take(from netip.Addr, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.find(address.Network(from))
	for len(one.calls) > 0 && now.Sub(one.calls[0]) >= q.rate.Span {
		one.calls = one.calls[1:]
	}
	if len(one.calls) >= q.rate.Calls {
		return fault.New(fault.Exhausted, fault.RateLimitExceeded, "Too many %s from your address: at most %d within %s.",
			q.what, q.rate.Calls, inWords(q.rate.Span)).After(one.calls[0].Add(q.rate.Span).Sub(now))
	}
	one.calls = append(one.calls, now)
	return nil
}

// giveBack takes back a call that was counted at a time.
func (q *quota) giveBack(from netip.Addr, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	element, ok := q.at[address.Network(from)]
	if !ok {
		return
	}
	one := element.Value.(*caller)
	if i := slices.Index(one.calls, at); i >= 0 {
		one.calls = slices.Delete(one.calls, i, i+1)
	}
}

// counted has a peer asked at the cost of one of the calls of an address. A call that
// was malformed, or that the peer could not answer, costs none.
func (a *API) counted(ctx context.Context, q *quota, c Call, ask func(context.Context) error) error {
	now := a.peers.Clock.Now()
	if err := q.take(c.From, now); err != nil {
		return err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	err := ask(called)
	if err == nil {
		return nil
	}
	err = ofPeer(ctx, err)
	if f, ok := fault.As(err); ok && (f.Kind == fault.Invalid || f.Kind == fault.Unavailable) {
		q.giveBack(c.From, now)
	}
	return err
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

func (q *quota) find(network netip.Prefix) *caller {
	if element, ok := q.at[network]; ok {
		q.order.MoveToFront(element)
		return element.Value.(*caller)
	}
	if len(q.at) >= q.networks {
		oldest := q.order.Back()
		q.order.Remove(oldest)
		delete(q.at, oldest.Value.(*caller).network)
	}
	one := &caller{network: network}
	q.at[network] = q.order.PushFront(one)
	return one
}
