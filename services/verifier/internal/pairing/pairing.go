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
// All times are the database's (store.Clock), because replicas must count the same days.
//
// Of one account at most one pair of an offer counts in a UTC day, because a consumer can let
// its requests fail on purpose: the next attempt of another account is the pair then. Which
// attempt that is follows from accounts and times alone, never from how attempts ended, so
// that pairs stay exact. A pair's key names the account and the day, so that the database
// holds several replicas, and one that was started again, to it.
//
// Attempts of a provider's offer are looked at while a probe of the offer is under way or
// waits for its pair, and no others. All that is kept is bounded; what finds no room, or
// waits longer than Patience, makes no pair.
package pairing

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
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
	// maxOfAccount bounds the attempts of one account among those of an offer, so that it
	// leaves room for others.
	maxOfAccount = 8
	// maxOwn bounds the requests that are known as own, and maxTags the accounts.
	maxOwn  = 16_384
	maxTags = 256
	// maxCounted bounds the pairs of a day that are remembered. What finds no room is held to
	// its day by its key.
	maxCounted = 65_536
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
	// Account is that of the attempt, Day its UTC day since 1970.
	Account string
	Day     int64
}

// Key names the pairs of one account with an offer in a day, of which one counts. It does
// not tell the account, nor that two keys of different offers or days are of one.
func (p Pair) Key() string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "svc pair v1\n%s\n%d %s\n%d\n%s", p.Offer.Provider, len(p.Offer.Model), p.Offer.Model, p.Day,
		p.Account) // a hash never fails
	return "pair/" + strconv.FormatInt(p.Day, 10) + "/" + hex.EncodeToString(h.Sum(nil)[:16])
}

// counted names an account that a pair of an offer has counted.
type counted struct {
	offer   probe.Offer
	account string
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
	// counted are the pairs of the day.
	counted map[counted]bool
	day     int64
}

// New returns a matcher.
func New() *Matcher {
	return &Matcher{offers: map[probe.Offer]*waiting{}, own: map[string]bool{}, tags: map[string]bool{},
		counted: map[counted]bool{}}
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
	d := m.offers[a.Offer]
	if d == nil || len(d.attempts) >= maxAttempts {
		return
	}
	of := 0
	for _, other := range d.attempts {
		if other.Account == a.Account {
			of++
		}
	}
	if of < maxOfAccount {
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
			i := slices.IndexFunc(d.attempts, func(a Attempt) bool { return m.followsLocked(p, a) })
			switch {
			case i >= 0 && now.Sub(d.attempts[i].At) >= Hold:
				pairs = append(pairs, m.pairLocked(p, d.attempts[i]))
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

// followsLocked reports whether an attempt may be the pair of a probe.
func (m *Matcher) followsLocked(p probed, a Attempt) bool {
	return !p.ended.IsZero() && a.At.After(p.ended) &&
		(dayOf(a.At) != m.day || !m.counted[counted{a.Offer, a.Account}])
}

// pairLocked makes a pair, and counts it for its day. Of an earlier day than the last pair's
// nothing is remembered.
func (m *Matcher) pairLocked(p probed, a Attempt) Pair {
	day := dayOf(a.At)
	if day > m.day {
		m.day = day
		clear(m.counted)
	}
	if day == m.day && len(m.counted) < maxCounted {
		m.counted[counted{a.Offer, a.Account}] = true
	}
	return Pair{Probe: p.id, Offer: a.Offer, ProbeFailed: p.failed, OrganicFailed: a.Failed, Account: a.Account, Day: day}
}

func dayOf(at time.Time) int64 { return at.Unix() / 86_400 }

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
