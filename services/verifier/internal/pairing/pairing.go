// Package pairing finds, for each hidden probe, the next attempt of a consumer at the same
// offer. The two make a pair of family F: where probes fare better than the requests beside
// them, a provider treats them otherwise.
//
// A probe looks like a consumer's request, to the verifier too: attempts name no consumer.
// So an attempt is held for Hold, in which a probe that made it learns its request's id and
// says that it is its own (Own). What nobody claims until then is a consumer's. The tag of
// the account that an own attempt had is remembered, because another replica's probes come
// from the same house accounts.
//
// Attempts of a provider's offer are looked at while a probe of the offer is under way or
// waits for its pair, and no others. All that is kept is bounded; what finds no room, or
// waits longer than Patience, makes no pair.
package pairing

import (
	"slices"
	"sync"
	"time"

	"svc.internal/services/verifier/internal/probe"
)

const (
	// Hold is how long an attempt may turn out to be a probe's.
	Hold = time.Minute
	// Patience is how long a probe waits for its pair.
	Patience = 6 * time.Hour
	// MaxOffers bounds the offers, maxProbes and maxAttempts what is kept of each.
	MaxOffers   = 20_000
	maxProbes   = 16
	maxAttempts = 64
	// maxOwn bounds the requests that are known as own, and maxTags the accounts.
	maxOwn  = 16_384
	maxTags = 256
)

// Attempt is a try of some request at an offer.
type Attempt struct {
	Request string
	// Account is an opaque tag; empty where it is not known.
	Account string
	Offer   probe.Offer
	Failed  bool
	At      time.Time
}

// Pair is a probe with the organic attempt that followed it.
type Pair struct {
	Probe         probe.ID
	Offer         probe.Offer
	ProbeFailed   bool
	OrganicFailed bool
}

// probed is a probe under way, or one that has ended and waits.
type probed struct {
	id     probe.ID
	began  time.Time
	ended  time.Time // zero while it is under way
	failed bool
}

type waiting struct {
	probes   []probed
	attempts []Attempt
}

// Matcher is safe for concurrent use.
type Matcher struct {
	mu     sync.Mutex
	offers map[probe.Offer]*waiting
	own    map[string]bool
	order  []string // of own, the oldest first
	tags   map[string]bool
}

// New returns a matcher.
func New() *Matcher {
	return &Matcher{offers: map[probe.Offer]*waiting{}, own: map[string]bool{}, tags: map[string]bool{}}
}

// Begin says that a hidden probe is about to be sent.
func (m *Matcher) Begin(o probe.Offer, id probe.ID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.offers[o]
	if d == nil {
		if len(m.offers) >= MaxOffers {
			return
		}
		d = &waiting{}
		m.offers[o] = d
	}
	if len(d.probes) < maxProbes {
		d.probes = append(d.probes, probed{id: id, began: now})
	}
}

// Ended says when a probe ended and whether its provider failed it.
func (m *Matcher) Ended(o probe.Offer, id probe.ID, failed bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.offers[o]; d != nil {
		for i := range d.probes {
			if d.probes[i].id == id {
				d.probes[i].ended, d.probes[i].failed = at, failed
			}
		}
	}
}

// Forget says that a probe has no result.
func (m *Matcher) Forget(o probe.Offer, id probe.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.offers[o]; d != nil {
		d.probes = slices.DeleteFunc(d.probes, func(p probed) bool { return p.id == id })
		m.tidyLocked(o, d)
	}
}

// Own says that a request is a probe's.
func (m *Matcher) Own(request string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own[request] {
		return
	}
	if len(m.order) >= maxOwn {
		delete(m.own, m.order[0])
		m.order = m.order[1:]
	}
	m.own[request] = true
	m.order = append(m.order, request)
}

// Attempted hears of an attempt.
func (m *Matcher) Attempted(a Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.offers[a.Offer]; d != nil && len(d.attempts) < maxAttempts {
		d.attempts = append(d.attempts, a)
	}
}

// Due returns the pairs that are complete now.
func (m *Matcher) Due(now time.Time) []Pair {
	m.mu.Lock()
	defer m.mu.Unlock()
	var pairs []Pair
	for o, d := range m.offers {
		d.attempts = slices.DeleteFunc(d.attempts, m.ownLocked)
		kept := d.probes[:0]
		for _, p := range d.probes {
			i := slices.IndexFunc(d.attempts, func(a Attempt) bool { return !p.ended.IsZero() && a.At.After(p.ended) })
			switch {
			case i >= 0 && now.Sub(d.attempts[i].At) >= Hold:
				pairs = append(pairs, Pair{Probe: p.id, Offer: o, ProbeFailed: p.failed, OrganicFailed: d.attempts[i].Failed})
			case now.Sub(p.began) < Patience:
				kept = append(kept, p)
			}
		}
		clear(d.probes[len(kept):])
		d.probes = kept
		d.trim(now)
		m.tidyLocked(o, d)
	}
	return pairs
}

// trim drops the attempts that came before every probe that waits: they can follow none.
func (d *waiting) trim(now time.Time) {
	first := now
	for _, p := range d.probes {
		since := p.began
		if !p.ended.IsZero() {
			since = p.ended
		}
		if since.Before(first) {
			first = since
		}
	}
	d.attempts = slices.DeleteFunc(d.attempts, func(a Attempt) bool {
		return !a.At.After(first) && now.Sub(a.At) >= Hold
	})
}

// ownLocked reports whether an attempt is a probe's, and learns its account.
func (m *Matcher) ownLocked(a Attempt) bool {
	if !m.own[a.Request] {
		return a.Account != "" && m.tags[a.Account]
	}
	if a.Account != "" && len(m.tags) < maxTags {
		m.tags[a.Account] = true
	}
	return true
}

func (m *Matcher) tidyLocked(o probe.Offer, d *waiting) {
	if len(d.probes) == 0 {
		delete(m.offers, o)
	}
}
