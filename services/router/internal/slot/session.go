package slot

import (
	"slices"
	"sync"
	"time"
)

// confirmedAfter is by when an agent has said its load again, so that one which
// has not changed is what it is now: agents speak every 30 s at the slowest, and
// hubs pass it on 10 s later at the latest.
const confirmedAfter = 45 * time.Second

// An agent asks its engines every 10 s and says so at its next heartbeat, which a
// hub passes on within 10 s: what was ours in a new number was so within the last
// pastSlices of sliceLength, or in the current one.
const (
	sliceLength = 5 * time.Second
	pastSlices  = 6
)

// Pool counts over all models of one session. It is safe for concurrent use.
//
// An agent says from time to time how many requests its engines have, those of
// others included. What it says may be older than all else that is known, so
// ours among them cannot be told exactly. They are taken to be the most that we
// had under way in the last 30 s, however often the hub reports, and when the
// number has stayed the same for confirmedAfter, since then. So the requests of
// others are never more than what was said, and requests of ours that have ended
// meanwhile are not mistaken for theirs. They add to our load and never lower it:
// an agent that says too much gets less to do, one that says nothing gets what its
// capacity allows.
type Pool struct {
	mu       sync.Mutex
	capacity int // 0 when it declared none
	declared int // sum over the models
	own      int // load, sum over the models
	others   int

	heard  bool
	said   int
	saidAt time.Time
	peak   int // the most that own was since saidAt
	// recent is the most that own was in the slice that began at sliceAt, and in
	// those before it, latest first.
	recent  [1 + pastSlices]int
	sliceAt time.Time
}

// NewPool is a session of which nothing has been reported.
func NewPool() *Pool { return &Pool{} }

// Counter is a counter for one more model, of which nothing has been reported.
func (s *Pool) Counter() *Counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declared += DefaultCapacity
	return &Counter{pool: s, declared: DefaultCapacity}
}

// Drop takes a counter out whose model is served no longer. Those who still
// hold it may go on, and the session does not hear of it.
func (s *Pool) Drop(c *Counter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declared -= c.declared
	s.add(-c.load())
	c.gone = true
}

// Report takes over what a hub says of the session as a whole, after the reports
// of its models: the declared capacity, 0 for none, and how many requests the
// agent has said that its engines have.
func (s *Pool) Report(capacity, said int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = min(max(capacity, 0), MaxCapacity)
	said = max(said, 0)
	s.pass(now)
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

// add changes our load, in the current slice.
func (s *Pool) add(n int) {
	s.own += n
	s.recent[0], s.peak = max(s.recent[0], s.own), max(s.peak, s.own)
}

// pass begins the slices that have passed, with our load as it has stayed.
func (s *Pool) pass(now time.Time) {
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
