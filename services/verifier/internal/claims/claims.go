// Package claims keeps what engines claimed of requests, by the request's id, until the
// probe that asks for it has come.
//
// A usage event names no consumer, so nobody can tell the event of a probe before the probe
// knows its request's id. Therefore the claims of all requests are kept for a while: the
// last MaxKept of them. A claim that is not there any more, or never came, makes family U
// say nothing of its probe, which harms nobody.
package claims

import (
	"context"
	"errors"
	"sync"

	"svc.internal/pkg/ids"
)

const (
	// MaxKept bounds the claims that are kept: those of ten minutes at 100 requests a second.
	MaxKept = 65_536
	// maxWaiting bounds those that wait at a time.
	maxWaiting = 1_024
)

// ErrTooMany is the error for more probes that wait than there can be.
var ErrTooMany = errors.New("too many probes wait for a claim")

// Claim is what an engine claimed of a request.
type Claim struct {
	// Valid reports whether there was a claim that can be true.
	Valid          bool
	Prompt, Output int64
}

// Box is safe for concurrent use.
type Box struct {
	limit int
	own   func(request ids.RequestID)

	mu      sync.Mutex
	kept    map[ids.RequestID]Claim
	order   []ids.RequestID // of kept, as a ring
	next    int
	waiting map[ids.RequestID]chan struct{}
}

// New returns an empty box. own is told of each request that somebody waits for, because
// only probes do.
func New(own func(request ids.RequestID)) *Box {
	return &Box{limit: MaxKept, own: own, kept: map[ids.RequestID]Claim{},
		waiting: map[ids.RequestID]chan struct{}{}}
}

// Put keeps a claim, and wakes who waits for it. The first claim of a request stays.
func (b *Box) Put(request ids.RequestID, c Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.kept[request]; known {
		return
	}
	if len(b.order) < b.limit {
		b.order = append(b.order, request)
	} else {
		delete(b.kept, b.order[b.next])
		b.order[b.next] = request
		b.next = (b.next + 1) % b.limit
	}
	b.kept[request] = c
	if woken, ok := b.waiting[request]; ok {
		close(woken)
		delete(b.waiting, request)
	}
}

// Wait returns the claim of a request, and waits for it until ctx ends.
func (b *Box) Wait(ctx context.Context, request ids.RequestID) (Claim, error) {
	b.own(request)
	b.mu.Lock()
	c, known := b.kept[request]
	if known {
		b.mu.Unlock()
		return c, nil
	}
	woken, ok := b.waiting[request]
	if !ok {
		if len(b.waiting) >= maxWaiting {
			b.mu.Unlock()
			return Claim{}, ErrTooMany
		}
		woken = make(chan struct{})
		b.waiting[request] = woken
	}
	b.mu.Unlock()
	select {
	case <-woken:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.kept[request], nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.waiting[request] == woken {
			delete(b.waiting, request)
		}
		return Claim{}, ctx.Err() //nolint:wrapcheck // the caller knows what it waited for
	}
}
