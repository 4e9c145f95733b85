// Package ratelimit reads how much of a key's rate is left, for answers to requests that
// are refused before admission or that need none. Admission gives the rate of every other
// request with its own answer.
//
// billing-ledger knows the rate exactly. A Reader asks it and keeps the answer for a
// moment, so that refused requests cause few calls: one each Config.KeptFor for a key and
// a category. An answer says nothing of a rate that cannot be read in time or that there
// is no room to ask for.
//
// The rate that is read is the key's own. The rates of a plan and of zero-priced models
// may be stricter, and only admission knows whether they count.
package ratelimit

import (
	"context"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// Config bounds what is asked for and kept.
type Config struct {
	// KeptFor is how long a rate is taken for the current one. FailedFor is how long
	// after a failure no other reading is tried.
	KeptFor, FailedFor time.Duration
	// Kept bounds how many rates are kept, and UnderWay how many are asked for at a time.
	Kept, UnderWay int
}

// Reader reads how much of keys' rates is left. It is safe for concurrent use.
type Reader struct {
	admission billingv1.AdmissionServiceClient
	clock     clock.Clock
	cfg       Config

	mu       sync.Mutex
	kept     map[subject]*reading
	underWay int
}

// subject is the key and the category of a rate.
type subject struct{ keyID, category string }

// reading is one call and its result.
type reading struct {
	done  chan struct{} // closed when left and until are set
	left  *billingv1.RateLimit
	until time.Time
}

// New makes a reader that knows nothing yet.
func New(admission billingv1.AdmissionServiceClient, c clock.Clock, cfg Config) *Reader {
	return &Reader{admission: admission, clock: c, cfg: cfg, kept: map[subject]*reading{}}
}

// Read returns the rest of a key's rate in a category, or nil when that cannot be
// found out. Other callers may wait for the call that ctx bounds, so ctx should end with
// time and not with the client.
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

// find returns the reading of a subject that is current or under way. Otherwise it
// returns a new one for the caller to make, or nil when there is no room for it.
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

// over reports whether a reading has been made and is too old. The caller holds the lock.
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
		return // the answer says nothing of the rate
	}
	g.left, keep = resp.GetRequests(), r.cfg.KeptFor
}
