package slice

import (
	"sync"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/lru"
	"svc.internal/pkg/money"
)

const (
	// busy is the number of requests that the exact path admits for an account within busyWithin before
	// the account gets a slice.
	busy       = 3
	busyWithin = time.Second
	// notPlainFor is how long an account gets no slice after it turned out not to be plain.
	notPlainFor = time.Minute
	// minPause is how long an account gets no slice after one was recalled. The pause doubles up to
	// maxPause while slices are recalled that admitted fewer than worthwhile requests.
	minPause   = time.Second
	maxPause   = time.Minute
	worthwhile = 20
	// maxSeen bounds the accounts that are watched. An account that is forgotten begins anew.
	maxSeen = 1 << 14
)

// seen watches accounts without a slice. It is safe for concurrent use.
type seen struct {
	mu       sync.Mutex
	accounts *lru.Map[ids.AccountID, *sight]
}

// sight is what was seen of one account.
type sight struct {
	since   time.Time
	count   int64
	credit  money.NanoUSD
	largest money.NanoUSD
	// none is until when the account gets no slice, pause how long the last pause was.
	none  time.Time
	pause time.Duration
}

func newSeen() *seen { return &seen{accounts: lru.New[ids.AccountID, *sight](maxSeen, nil)} }

func (s *seen) ofLocked(id ids.AccountID) *sight {
	one, known := s.accounts.Get(id)
	if !known {
		one = &sight{}
		s.accounts.Add(id, one)
	}
	return one
}

// add counts a request that the exact path admitted. It returns true, and what the account may use of a
// slice, when the account should get one.
func (s *seen) add(id ids.AccountID, amount money.NanoUSD, now time.Time) (demand, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(id)
	if now.Sub(one.since) > busyWithin {
		one.since, one.count, one.credit, one.largest = now, 0, 0, 0
	}
	amount = min(amount, maxDemand)
	one.count++
	one.credit = min(one.credit+amount, maxDemand)
	one.largest = max(one.largest, amount)
	if one.count < busy || now.Before(one.none) {
		return demand{}, false
	}
	spans := int64(span / busyWithin)
	d := demand{credit: min(one.credit, maxDemand/money.NanoUSD(spans)) * money.NanoUSD(spans),
		places: min(one.count*spans, MaxPlaces) * 1000, largest: one.largest, at: now}
	one.since = time.Time{}
	return d, true
}

// deny keeps an account from getting a slice for some time.
func (s *seen) deny(id ids.AccountID, d time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(id)
	one.none = later(one.none, now.Add(d))
}

// pause keeps an account from getting a slice after one was recalled that admitted some requests.
func (s *seen) pause(id ids.AccountID, admitted uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(id)
	if one.pause = min(2*one.pause, maxPause); admitted >= worthwhile {
		one.pause = 0
	}
	one.pause = max(one.pause, minPause)
	one.none = later(one.none, now.Add(one.pause))
}
