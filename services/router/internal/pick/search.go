package pick

import (
	"math/rand/v2"
	"slices"
	"time"

	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/score"
)

const (
	// sampleAbove is the number of seats from which they are sampled, and the
	// number of options that a walk of more seats stops at, because more would
	// not better two random ones. A hub lets a provider have 64 sessions, so
	// three providers are mostly among them.
	sampleAbove = 192
	// sortAmong is what a walk stops at instead when a sort wants the best of
	// all. The best of as many from a random place on is as a rule among the
	// best thousandth, and to look at more costs a microsecond of a core each.
	sortAmong = 1_024
	// sampleTries bounds the draws of a sample, sampleSize what it keeps.
	sampleTries = 32
	sampleSize  = 8
)

// search is one look at the seats of a model.
type search struct {
	picker *Picker
	random *rand.Rand
	source rand.PCG

	req   *Request
	seats []*presence.Seat
	// first are the seats of the providers in the order; nil where all seats
	// are looked at anyway.
	first   []*presence.Seat
	catalog int64
	need    int64
	now     time.Time
	// narrowed says that seats are those of named providers only.
	narrowed bool

	order, wanted, ignored nameSet

	main  []option
	probe []option
	// seen are the first different providers of the main lane that may be any
	// candidate.
	seen      [MaxCandidates]string
	providers int

	// What a walk learns for a refusal.
	online     int
	busy       int // eligible, for any request, without a free slot
	busyProbe  int // the same in the probe lane
	engaged    int // the same in the main lane, which ours alone would leave room
	maxWindow  int64
	boundless  bool // some window is not known
	maxBody    int64
	bodyOpen   bool // somebody takes any body
	capables   int  // have what the request requires
	chosen     []Candidate
	candidates [MaxCandidates]Candidate
}

func (s *search) begin(req *Request, catalog int64, now time.Time) {
	s.req, s.catalog, s.now = req, catalog, now
	s.need = req.PromptTokens + req.MaxTokens
	s.order.take(req.Prefer.Order)
	s.wanted.take(req.Prefer.Only)
	s.ignored.take(req.Prefer.Ignore)
	s.reset()
}

// among limits the search to named providers, whatever the model's other seats.
func (s *search) among(providers ...string) {
	s.seats, s.first, s.narrowed = s.picker.deps.View.Of(s.req.Model, providers...), nil, true
}

// amongWanted opens the search to everybody whom the preferences want. Those
// they name are looked up where there are too many seats to walk for them.
func (s *search) amongWanted() {
	view := s.picker.deps.View
	s.seats, s.first, s.narrowed = view.Seats(s.req.Model), nil, false
	if len(s.seats) > sampleAbove && len(s.wanted.list) > 0 {
		s.among(s.wanted.list...)
	}
	if len(s.seats) > sampleAbove && len(s.order.list) > 0 {
		s.first = view.Of(s.req.Model, s.order.list...)
	}
}

func (s *search) reset() {
	s.main, s.probe, s.chosen = emptied(s.main), emptied(s.probe), s.candidates[:0]
	s.seen, s.providers = [MaxCandidates]string{}, 0
	s.online, s.busy, s.busyProbe, s.engaged, s.maxWindow, s.maxBody = 0, 0, 0, 0, 0, 0
	s.boundless, s.bodyOpen, s.capables = false, false, 0
}

func (s *search) reseed(hi, lo uint64) {
	s.source.Seed(hi, lo)
}

// release lets go of what must not live on in the pool.
func (s *search) release() {
	s.main, s.probe = emptied(s.main), emptied(s.probe)
	clear(s.candidates[:])
	s.req, s.seats, s.first = nil, nil, nil
	s.seen = [MaxCandidates]string{}
	s.order.take(nil)
	s.wanted.take(nil)
	s.ignored.take(nil)
}

// emptied keeps a lane that is not large for the next search, without its
// pointers; what has left the lane before is cleared already.
func emptied(lane []option) []option {
	if cap(lane) > 2*sortAmong {
		return nil
	}
	clear(lane)
	return lane[:0]
}

// sample looks at those who are named in an order and draws other seats at
// random. It reports whether enough of them can be used for an answer that a walk
// could not better. What a filter leaves too little of to be drawn is left to
// the walk.
func (s *search) sample() bool {
	if len(s.seats) <= sampleAbove {
		return false
	}
	s.considerFirst()
	if s.req.Prefer.Sort == ByWeight {
		s.drawSeats()
	}
	if s.providers >= MaxCandidates {
		return true
	}
	s.reset()
	return false
}

func (s *search) considerFirst() {
	for _, seat := range s.first {
		s.consider(seat)
	}
}

func (s *search) drawSeats() {
	if s.providers >= MaxCandidates {
		return // all are named
	}
	most := len(s.main) + sampleSize
	for range sampleTries {
		seat := s.seats[s.random.IntN(len(s.seats))]
		if s.holds(seat) {
			continue
		}
		s.consider(seat)
		if len(s.main) >= most {
			break
		}
	}
}

func (s *search) holds(seat *presence.Seat) bool {
	for _, lane := range [2][]option{s.main, s.probe} {
		for i := range lane {
			if lane[i].seat == seat {
				return true
			}
		}
	}
	return false
}

// walk looks at every seat, those of an order first, until it has found enough
// that can be used. So a walk of very many seats goes on only past such as are
// refused, and what is found nowhere else is found by it.
func (s *search) walk() {
	s.reset()
	s.considerFirst()
	enough, from := len(s.main)+s.enough(), 0
	if len(s.seats) > enough {
		from = s.random.IntN(len(s.seats))
	}
	for _, part := range [2][]*presence.Seat{s.seats[from:], s.seats[:from]} {
		for _, seat := range part {
			if len(s.main) >= enough && s.providers >= MaxCandidates {
				return
			}
			if len(s.first) == 0 || !s.ordered(seat) {
				s.consider(seat)
			}
		}
	}
}

// enough is how many options a walk stops at.
func (s *search) enough() int {
	switch {
	case s.req.Prefer.Sort == ByWeight:
		return sampleAbove
	case s.narrowed:
		return len(s.seats) // of those who are named none is left out
	default:
		return sortAmong
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
		s.picker.deps.Stats.reject(seat.Session.Provider, reason)
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
	rec := s.picker.deps.Health.Find(health.Pair{Provider: seat.Session.Provider, Model: seat.Offer.Model})
	where, why := laneOf(rec, s.req.Account, s.now)
	if where == shut {
		return why
	}
	if where == probeLane && s.ordered(seat) {
		where = mainLane
	}
	load, limit := seat.Slots.Usage(s.now)
	if load >= limit {
		switch {
		case where != mainLane:
			s.busyProbe++
		case seat.Slots.OthersAlone(s.now):
			s.engaged++
		default:
			s.busy++
		}
		return Busy
	}
	in := score.Input{
		Success: 1, Load: load, Limit: limit,
		Uptime: seat.Session.Uptime, UptimeKnown: seat.Session.UptimeKnown,
	}
	if seat.Session.Probation {
		in.Trust = score.Probation
	}
	o := option{seat: seat, record: rec, place: s.place(seat.Session.Provider), why: why}
	if rec != nil {
		health := rec.Window.Health()
		in.Success, in.FirstContent = health.Success, health.FirstContent
		o.figure = s.req.Prefer.figure(health)
	}
	o.score = score.Of(in)
	if where == probeLane {
		if len(s.probe) < sortAmong {
			s.probe = append(s.probe, o)
		}
		return Eligible
	}
	s.main = append(s.main, o)
	s.see(&o)
	return Eligible
}

// see counts the different providers of the main lane, up to MaxCandidates.
func (s *search) see(o *option) {
	if s.providers == MaxCandidates || slices.Contains(s.seen[:s.providers], o.seat.Session.Provider) {
		return
	}
	if s.mayBeHalfOpen(o) {
		return // no alternate
	}
	s.seen[s.providers] = o.seat.Session.Provider
	s.providers++
}

// choose books a primary and draws alternates; the result is the caller's. It
// is empty when no slot could be booked.
func (s *search) choose() []Candidate {
	first, second := &s.main, &s.probe
	if len(s.probe) > 0 && !s.req.Prefer.ordering() && s.random.IntN(ProbeOneIn) == 0 {
		first, second = second, first
	}
	switch {
	case s.book(first):
		if first == &s.main {
			s.preferOthers()
		}
	case !s.book(second):
		return nil
	}
	s.alternates()
	return append([]Candidate(nil), s.chosen...)
}

// preferOthers counts the probe lane as passed over by a request that somebody
// else leads.
func (s *search) preferOthers() {
	for i := range s.probe {
		s.picker.deps.Stats.reject(s.probe[i].seat.Session.Provider, s.probe[i].why)
	}
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
		if o.record != nil && !o.record.Breaker.Probe(s.req.Account, s.now) {
			o.seat.Slots.Cancel(s.req.ID)
			s.drop(o.seat.Session.Provider)
			continue
		}
		s.picker.deps.Stats.choose(o.seat.Session.Provider, o.seat.Offer.Model)
		s.add(o)
		return true
	}
	return false
}

// alternates fills up with other providers, degraded ones last. A half-open
// breaker is left alone: its probe is worth a primary's place only.
func (s *search) alternates() {
	if len(s.order.list) > 0 {
		s.main = slices.DeleteFunc(s.main, func(o option) bool { return s.mayBeHalfOpen(&o) })
	}
	for len(s.chosen) < MaxCandidates && len(s.main) > 0 {
		s.add(s.draw(&s.main))
	}
	for len(s.chosen) < MaxCandidates && len(s.probe) > 0 {
		if o := s.draw(&s.probe); s.halfOpen(&o) {
			s.drop(o.seat.Session.Provider)
		} else {
			s.add(o)
		}
	}
}

// mayBeHalfOpen reports whether an option of the main lane is: only a provider
// that is ordered can be.
func (s *search) mayBeHalfOpen(o *option) bool {
	return o.place < len(s.order.list) && s.halfOpen(o)
}

func (s *search) halfOpen(o *option) bool {
	if o.record == nil {
		return false
	}
	_, probe := o.record.Breaker.Admits(s.req.Account, s.now)
	return probe
}

// add makes an option a candidate, after which nothing else of its provider can
// be one.
func (s *search) add(o option) {
	w, source := effective(o.seat, s.catalog)
	s.keep(Candidate{Seat: o.seat, Window: w, Source: source})
}

func (s *search) keep(c Candidate) {
	s.chosen = append(s.chosen, c)
	s.drop(c.Seat.Session.Provider)
}
