// Package ratelimit tells what is left of keys' rates, for answers that
// admission has not told it of: those to requests that are refused before it,
// and those that need none.
//
// It asks billing-ledger, which knows it exactly, and keeps what it hears for a
// moment, so that whoever sends requests that are refused makes few calls of
// them: one each Config.KeptFor for a key and a category. What it cannot find
// out in time, or has no room to ask for, goes unsaid.
package ratelimit

import (
	"context"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// Config bounds what is asked and kept.
type Config struct {
	// KeptFor is how long a rate is taken for the current one, FailedFor how
	// long a failure to read one keeps the next from being tried.
	KeptFor, FailedFor time.Duration
	// Kept bounds how many are kept, and UnderWay how many are asked for at a
	// time.
	Kept, UnderWay int
}

// Reader tells what is left of keys' rates. It is safe for concurrent use.
type Reader struct {
	admission billingv1.AdmissionServiceClient
	clock     clock.Clock
	cfg       Config

	mu       sync.Mutex
	kept     map[subject]*reading
	underWay int
}

// subject is whose rate in which category.
type subject struct{ keyID, category string }

// reading is one call and what came of it.
type reading struct {
	done  chan struct{} // closed when left and until are set
	left  *billingv1.RateLimit
	until time.Time
}

// New makes a reader that knows nothing yet.
func New(admission billingv1.AdmissionServiceClient, c clock.Clock, cfg Config) *Reader {
	return &Reader{admission: admission, clock: c, cfg: cfg, kept: map[subject]*reading{}}
}

// Read tells what is left of a key's rate in a category; nil when that cannot be
// found out. Others may wait for what ctx asks for, so it should end with time
// and not with the client.
func (r *Reader) Read(ctx context.Context, keyID, category string) *billingv1.RateLimit {
	found, mine := r.find(subject{keyID, category})
	switch {
	case found == nil:
		return nil
	case mine:
		r.ask(ctx, found, keyID, category)
		return found.left
	}
	select {
	case <-found.done:
		return found.left
	case <-ctx.Done():
		return nil
	}
}

// find gives the reading of a subject that is current or under way, or else a new
// one for the caller to make; nil when there is no room for it.
func (r *Reader) find(s subject) (found *reading, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if found := r.kept[s]; found != nil && !found.over(now) {
		return found, false
	}
	if len(r.kept) >= r.cfg.Kept {
		for other, reading := range r.kept {
			if reading.over(now) {
				delete(r.kept, other)
			}
		}
	}
	if len(r.kept) >= r.cfg.Kept || r.underWay >= r.cfg.UnderWay {
		return nil, false
	}
	r.underWay++
	found = &reading{done: make(chan struct{})}
	r.kept[s] = found
	return found, true
}

// over reports whether a reading has been made and is too old. The caller holds
// the lock.
func (g *reading) over(now time.Time) bool {
	select {
	case <-g.done:
		return !now.Before(g.until)
	default:
		return false
	}
}

// ask makes a reading.
func (r *Reader) ask(ctx context.Context, g *reading, keyID, category string) {
	keep := r.cfg.FailedFor
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.underWay--
		g.until = r.clock.Now().Add(keep)
		close(g.done)
	}()
	resp, err := r.admission.ReadRate(ctx, &billingv1.ReadRateRequest{KeyId: keyID, Category: category})
	if err != nil {
		return // it goes unsaid, and the refusal itself is told
	}
	g.left, keep = resp.GetRequests(), r.cfg.KeptFor
}
