package slot

import (
	"slices"
	"sync"
	"time"
)

// confirmedAfter is after how long an agent has reported its load again, so that a load
// which has not changed is the load now. Agents report every 30 s at the slowest, and
// hubs pass a report on at most 10 s later.
const confirmedAfter = 45 * time.Second

// An agent asks its engines every 10 s and reports at its next heartbeat, which a hub
// passes on within 10 s. So our part in a new number was under way within the last
// pastSlices of sliceLength, or in the current slice.
const (
	sliceLength = 5 * time.Second
	pastSlices  = 6
)

// Pool counts over all models of one session. It is safe for concurrent use.
//
// An agent reports from time to time how many requests its engines have, the requests of
// others included. Its report may be older than all else that is known, so our part in it
// is not known exactly. Our part is taken to be the most that we had under way in the
// last 30 s, however often the hub reports, and, once the number has been the same for
// confirmedAfter, the most since then. So the requests of others never count more than
// was reported, and requests of ours that have ended meanwhile do not count as theirs.
// The requests of others add to our load and never lower it: an agent that reports too
// much gets less work, and an agent that reports nothing gets what its capacity allows.
type Pool struct {
	mu       sync.Mutex
	capacity int // 0 if the session declared none
	declared int // sum over the models
	own      int // our load, sum over the models
	others   int

	heard  bool
	said   int
	saidAt time.Time
	peak   int // the highest own since saidAt
	// recent has the highest own of the slice that began at sliceAt, and of the slices
	// before it, latest first.
	recent  [1 + pastSlices]int
	sliceAt time.Time
}

// NewPool returns a session of which nothing has been reported.
func NewPool() *Pool { return &Pool{} }

// Counter returns a counter for one more model, of which nothing has been reported.
func (s *Pool) Counter() *Counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declared += DefaultCapacity
	return &Counter{pool: s, declared: DefaultCapacity}
}

// Drop removes the counter of a model that is no longer served. Who still holds the
// counter may use it, and the session ignores it.
func (s *Pool) Drop(c *Counter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declared -= c.declared
	s.add(-c.load())
	c.gone = true
}

// Report takes over what a hub reports of the session as a whole, after the reports of
// its models: the declared capacity, 0 for none, and how many requests the agent says its
// engines have.
func (s *Pool) Report(capacity, said int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = min(max(capacity, 0), MaxCapacity)
	said = max(said, 0)
	s.passLocked(now)
	switch {
	case !s.heard || said != s.said:
		s.others = max(0, said-slices.Max(s.recent[:]))
	case now.Sub(s.saidAt) >= confirmedAfter:
		s.others = max(0, said-s.peak)
	default:
		return
	}
	s.heard, s.said, s.saidAt, s.peak = true, said, now, s.own
}

// add changes our load in the current slice.
func (s *Pool) add(n int) {
	s.own += n
	s.recent[0], s.peak = max(s.recent[0], s.own), max(s.peak, s.own)
}

// passLocked begins the slices that have passed, with our load as it was.
func (s *Pool) passLocked(now time.Time) {
	for range s.recent {
		if now.Sub(s.sliceAt) < sliceLength {
			return
		}
		copy(s.recent[1:], s.recent[:])
		s.recent[0] = s.own
		s.sliceAt = s.sliceAt.Add(sliceLength)
	}
	if now.Sub(s.sliceAt) >= sliceLength {
		s.sliceAt = now // nothing has changed for longer than is remembered
	}
}

func (s *Pool) load() int { return s.own + s.others }

func (s *Pool) limit() int {
	if s.capacity > 0 {
		return min(s.capacity, s.declared)
	}
	return s.declared
}

func (s *Pool) spare() int { return s.limit() - s.load() }
