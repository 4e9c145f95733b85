package pick

import (
	"math/rand/v2"
	"time"

	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/score"
	"svc.internal/services/router/internal/standing"
)

const (
	// sampleAbove is the number of seats from which they are sampled. A
	// provider has at most 64 sessions, so three providers are among them.
	sampleAbove = 192
	// sampleTries bounds the draws of a sample, sampleSize what it keeps.
	sampleTries = 32
	sampleSize  = 8
)

// option is an eligible seat with a free slot.
type option struct {
	seat   *presence.Seat
	record *standing.Record
	score  float64
	figure float64 // what the request sorts by
}

// search is one look at the seats of a model.
type search struct {
	picker *Picker
	random *rand.Rand
	source rand.PCG

	req     *Request
	seats   []*presence.Seat
	catalog int64
	need    int64
	now     time.Time
	// only limits the search to one provider when it is not empty.
	only string

	main  []option
	probe []option

	// What a walk learns for a refusal.
	online     int
	busy       int // eligible, for any request, without a free slot
	busyProbe  int // the same in the probe lane
	maxWindow  int64
	boundless  bool // some window is not known
	maxBody    int64
	bodyOpen   bool // somebody takes any body
	capables   int  // have what the request requires
	chosen     []Candidate
	candidates [MaxCandidates]Candidate
}

func (s *search) begin(req *Request, seats []*presence.Seat, catalog int64, now time.Time) {
	s.req, s.seats, s.catalog, s.now = req, seats, catalog, now
	s.need = req.PromptTokens + req.MaxTokens
	s.reset()
}

func (s *search) reset() {
	s.main, s.probe, s.chosen = s.main[:0], s.probe[:0], s.candidates[:0]
	s.online, s.busy, s.busyProbe, s.maxWindow, s.maxBody = 0, 0, 0, 0, 0
	s.boundless, s.bodyOpen, s.capables = false, false, 0
}

func (s *search) reseed(hi, lo uint64) {
	s.source.Seed(hi, lo)
}

// release lets go of what must not live on in the pool.
func (s *search) release() {
	s.main, s.probe = emptied(s.main), emptied(s.probe)
	clear(s.candidates[:])
	s.req, s.seats, s.only = nil, nil, ""
}

// emptied keeps a small lane for the next search, without its pointers.
func emptied(lane []option) []option {
	if cap(lane) > sampleAbove {
		return nil
	}
	clear(lane[:cap(lane)])
	return lane[:0]
}

// sample draws seats at random. It tells whether enough of them can be used
// for an answer that a walk could not better.
func (s *search) sample() bool {
	if len(s.seats) <= sampleAbove || s.req.Prefer.given() {
		return false
	}
	for range sampleTries {
		seat := s.seats[s.random.IntN(len(s.seats))]
		if s.holds(seat) {
			continue
		}
		s.consider(seat)
		if len(s.main) >= sampleSize {
			break
		}
	}
	if s.providers() >= MaxCandidates {
		return true
	}
	s.reset()
	return false
}

func (s *search) holds(seat *presence.Seat) bool {
	for _, lane := range [2][]option{s.main, s.probe} {
		for _, o := range lane {
			if o.seat == seat {
				return true
			}
		}
	}
	return false
}

// providers counts the different ones in the main lane, up to MaxCandidates.
func (s *search) providers() int {
	var seen [MaxCandidates]string
	n := 0
next:
	for _, o := range s.main {
		for _, p := range seen[:n] {
			if p == o.seat.Session.Provider {
				continue next
			}
		}
		seen[n] = o.seat.Session.Provider
		if n++; n == MaxCandidates {
			break
		}
	}
	return n
}

// walk looks at every seat.
func (s *search) walk() {
	s.reset()
	for _, seat := range s.seats {
		if s.only == "" || seat.Session.Provider == s.only {
			s.consider(seat)
		}
	}
}

// consider puts a seat into its lane or counts why not.
func (s *search) consider(seat *presence.Seat) {
	reason := online(seat)
	if reason == Eligible {
		s.survey(seat)
		reason = s.fits(seat)
	}
	if reason == Eligible {
		reason = s.admit(seat)
	}
	if reason != Eligible {
		s.picker.deps.Rejects.count(seat.Session.Provider, reason)
	}
}

// survey remembers what the online providers could take at most.
func (s *search) survey(seat *presence.Seat) {
	s.online++
	w, _ := effective(seat, s.catalog)
	s.maxWindow = max(s.maxWindow, w)
	s.boundless = s.boundless || w == 0
	// What a body may be depends on what is asked for: only providers that have
	// it are heard on that.
	if !s.capable(seat) {
		return
	}
	s.capables++
	s.maxBody = max(s.maxBody, seat.Session.MaxRequestBytes)
	s.bodyOpen = s.bodyOpen || seat.Session.MaxRequestBytes == 0
}

func (s *search) admit(seat *presence.Seat) Reason {
	rec := s.picker.deps.Standing.Find(standing.Pair{Provider: seat.Session.Provider, Model: seat.Offer.Model})
	where := laneOf(rec, s.now)
	if where == shut {
		return BreakerOpen
	}
	if where == probeLane && s.req.Prefer.ordered(seat.Session.Provider) {
		where = mainLane
	}
	load, limit := seat.Slots.Usage(s.now)
	if load >= limit {
		if where == mainLane {
			s.busy++
		} else {
			s.busyProbe++
		}
		return Busy
	}
	in := score.Input{Trust: score.Unverified, Success: 1, Load: load, Limit: limit}
	o := option{seat: seat, record: rec}
	if rec != nil {
		health := rec.Window.Health()
		in.Success, in.FirstContent = health.Success, health.FirstContent
		o.figure = s.req.Prefer.figure(health)
	}
	o.score = score.Of(in)
	if where == probeLane {
		s.probe = append(s.probe, o)
	} else {
		s.main = append(s.main, o)
	}
	return Eligible
}

// choose books a primary and draws alternates; the result is the caller's. It
// is empty when no slot could be booked.
func (s *search) choose() []Candidate {
	first, second := &s.main, &s.probe
	if len(s.probe) > 0 && !s.req.Prefer.ordering() && s.random.IntN(ProbeOneIn) == 0 {
		first, second = second, first
	}
	if !s.book(first) && !s.book(second) {
		return nil
	}
	s.alternates()
	return append([]Candidate(nil), s.chosen...)
}

// book takes the best of two from a lane until a slot is had. In the probe
// lane the breaker must grant its one probe too.
func (s *search) book(from *[]option) bool {
	for len(*from) > 0 {
		o := s.draw(from)
		if !o.seat.Slots.Book(s.req.ID, s.now) {
			s.busy++ // somebody else was faster
			continue
		}
		if o.record != nil && !o.record.Breaker.Probe(s.now) {
			o.seat.Slots.Cancel(s.req.ID)
			continue
		}
		s.add(o)
		return true
	}
	return false
}

// alternates fills up with other providers, degraded ones last. A half-open
// breaker is left alone: its probe is worth a primary's place only.
func (s *search) alternates() {
	for len(s.chosen) < MaxCandidates && len(s.main) > 0 {
		// Only a provider that is ordered can be half open in this lane.
		if o := s.draw(&s.main); len(s.req.Prefer.Order) == 0 || !s.halfOpen(o) {
			s.addOther(o)
		}
	}
	for len(s.chosen) < MaxCandidates && len(s.probe) > 0 {
		if o := s.draw(&s.probe); !s.halfOpen(o) {
			s.addOther(o)
		}
	}
}

func (s *search) halfOpen(o option) bool {
	if o.record == nil {
		return false
	}
	_, probe := o.record.Breaker.Admits(s.now)
	return probe
}

func (s *search) addOther(o option) {
	for _, c := range s.chosen {
		if c.Seat.Session.Provider == o.seat.Session.Provider {
			return
		}
	}
	s.add(o)
}

func (s *search) add(o option) {
	w, source := effective(o.seat, s.catalog)
	s.chosen = append(s.chosen, Candidate{Seat: o.seat, Window: w, Source: source})
}

// draw takes an option out of a lane: the one that is preferred, else the better
// of two random ones.
func (s *search) draw(from *[]option) option {
	lane := *from
	best := s.preferred(lane)
	if best < 0 {
		best = s.betterOfTwo(lane)
	}
	o := lane[best]
	last := len(lane) - 1
	lane[best] = lane[last]
	*from = lane[:last]
	return o
}

func (s *search) betterOfTwo(lane []option) int {
	best := s.random.IntN(len(lane))
	if len(lane) == 1 {
		return best
	}
	other := s.random.IntN(len(lane) - 1)
	if other >= best {
		other++
	}
	if s.better(lane[other], lane[best]) {
		return other
	}
	return best
}

// better tells whether a is to be preferred to b.
func (s *search) better(a, b option) bool {
	if near := s.req.NearHub; near != "" && (a.seat.Hub == near) != (b.seat.Hub == near) {
		high, low := max(a.score, b.score), min(a.score, b.score)
		if high-low <= TieShare*high {
			return a.seat.Hub == near
		}
	}
	return a.score > b.score
}
