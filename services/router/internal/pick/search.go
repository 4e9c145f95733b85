package pick

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/score"
	"svc.internal/services/router/internal/trust"
)

const (
	// sampleAbove is the number of seats above which they are sampled. A walk of more
	// seats stops at as many options, because more would not improve on two random ones.
	// A hub lets a provider have 64 sessions, so these seats mostly belong to three
	// providers or more.
	sampleAbove = 192
	// sortAmong is the number of options at which a walk stops where a sort wants the
	// best. The best of as many, from a random place on, is as a rule among the best
	// thousandth. Each further seat costs a microsecond of a core.
	sortAmong = 1_024
	// sampleTries bounds the draws of a sample, and sampleSize the options that it keeps.
	sampleTries = 32
	sampleSize  = 8
)

// search is one look at the seats of a model.
type search struct {
	picker *Picker
	random *rand.Rand
	source rand.PCG

	req *Request
	// tier is the tier that is searched, and seats are its seats.
	tier  presence.Tier
	seats []*presence.Seat
	// first are the seats of the providers in the order, which count as of the first tier; nil
	// where all their seats are looked at in any case.
	first   []*presence.Seat
	catalog int64
	need    int64
	now     time.Time
	// narrowed reports whether seats has seats of named providers only, and named whether that
	// was so in any tier.
	narrowed, named bool

	order, wanted, ignored nameSet

	main  []option
	probe []option
	// seen are the first providers of the main lane that can be candidates, each once.
	seen      [MaxCandidates]string
	providers int

	findings
	// earlier are the findings in the tiers before this one.
	earlier    findings
	chosen     []Candidate
	candidates [MaxCandidates]Candidate
}

// findings are what the walks through the tiers so far have found out for a refusal.
type findings struct {
	online    int
	busy      int // seats that are eligible for any request and have no free slot
	busyProbe int // such seats in the probe lane
	engaged   int // such seats in the main lane in which our requests alone would leave room
	maxWindow int64
	boundless bool // the window of some provider is not known
	maxBody   int64
	bodyOpen  bool // some provider takes bodies of any size
	capables  int  // seats that have what the request requires
	passed    [reasons]uint16
}

func (s *search) begin(req *Request, catalog int64, now time.Time) {
	s.req, s.catalog, s.now = req, catalog, now
	s.need = req.PromptTokens + req.MaxTokens
	s.order.take(req.Prefer.Order)
	s.wanted.take(req.Prefer.Only)
	s.ignored.take(req.Prefer.Ignore)
	s.chosen, s.named, s.findings = s.candidates[:0], false, findings{}
	s.enter(presence.FirstTier)
}

// enter goes on to a tier. What was found out in the tiers before it stays known.
func (s *search) enter(t presence.Tier) {
	s.tier, s.earlier = t, s.findings
	s.seats, s.first, s.narrowed = nil, nil, false
	s.reset()
}

// among limits the search to named providers, however many seats the model has.
func (s *search) among(providers ...string) {
	s.seats = slices.DeleteFunc(s.picker.deps.View.Of(s.req.Model, providers...), func(seat *presence.Seat) bool {
		return s.tierOf(seat) != s.tier
	})
	s.first, s.narrowed, s.named = nil, true, true
}

// amongWanted opens the search to all providers of the tier that the preferences allow.
// Named ones are looked up where there are too many seats to walk.
func (s *search) amongWanted() {
	view := s.picker.deps.View
	s.seats, s.first, s.narrowed = view.Tier(s.req.Model, s.tier), nil, false
	many := len(s.seats) > sampleAbove
	if many && len(s.wanted.list) > 0 {
		s.among(s.wanted.list...)
		many = len(s.seats) > sampleAbove
	}
	if len(s.order.list) == 0 || s.tier != presence.FirstTier {
		return
	}
	// Providers in the order may have seats outside the first tier's list.
	if many || len(view.Tier(s.req.Model, presence.SecondTier)) > 0 {
		s.first = view.Of(s.req.Model, s.order.list...)
	}
}

// tierOf returns the tier of a seat for this request. A provider in the order is of the
// first, because the consumer's word is stronger.
func (s *search) tierOf(seat *presence.Seat) presence.Tier {
	if s.ordered(seat) {
		return presence.FirstTier
	}
	return seat.Session.Tier()
}

// reset forgets what was found out in this tier.
func (s *search) reset() {
	s.main, s.probe = emptied(s.main), emptied(s.probe)
	s.seen, s.providers = [MaxCandidates]string{}, 0
	s.findings = s.earlier
}

func (s *search) reseed(hi, lo uint64) {
	s.source.Seed(hi, lo)
}

// release drops what must not stay alive in the pool.
func (s *search) release() {
	s.main, s.probe = emptied(s.main), emptied(s.probe)
	clear(s.candidates[:])
	s.req, s.seats, s.first = nil, nil, nil
	s.seen = [MaxCandidates]string{}
	s.order.take(nil)
	s.wanted.take(nil)
	s.ignored.take(nil)
}

// emptied returns a lane without its options for the next search, and nil for a large
// one. What left the lane before has been cleared already.
func emptied(lane []option) []option {
	if cap(lane) > 2*sortAmong {
		return nil
	}
	clear(lane)
	return lane[:0]
}

// sample looks at the providers in the order and draws other seats at random. It reports
// whether it found enough options for an answer that a walk could not improve on. Where a
// filter leaves too few seats to be drawn, the walk finds them.
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
		return // the order alone has enough
	}
	wanted := len(s.main) + sampleSize
	for range sampleTries {
		seat := s.seats[s.random.IntN(len(s.seats))]
		if s.holds(seat) || s.tierOf(seat) != s.tier {
			continue
		}
		s.consider(seat)
		if len(s.main) >= wanted {
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

// walk looks at the seats one by one, the seats of the order first, until it has found enough
// options. So a walk of very many seats only continues past seats that are refused.
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
			if s.tierOf(seat) == s.tier && (len(s.first) == 0 || !s.ordered(seat)) {
				s.consider(seat)
			}
		}
	}
}

// enough returns at how many options a walk stops.
func (s *search) enough() int {
	switch {
	case s.req.Prefer.Sort == ByWeight:
		return sampleAbove
	case s.narrowed:
		return len(s.seats) // no provider that is named is left out
	default:
		return sortAmong
	}
}

// consider puts a seat into its lane, or counts why it is passed over. The other seats of a provider that
// is chosen already can serve nothing more.
func (s *search) consider(seat *presence.Seat) {
	if slices.ContainsFunc(s.chosen, func(c Candidate) bool { return c.Seat.Session.Provider == seat.Session.Provider }) {
		return
	}
	reason := online(seat)
	if reason == Eligible {
		a := s.appraise(seat)
		reason = s.consult(&a)
	}
	if reason != Eligible {
		s.passOver(seat.Session.Provider, reason)
	}
}

// passOver counts a seat that is passed over, for its provider and for the request.
func (s *search) passOver(provider string, why Reason) {
	s.picker.deps.Stats.reject(provider, why)
	if s.passed[why] < math.MaxUint16 {
		s.passed[why]++
	}
}

// choice is the answer of the search, with its candidates.
func (s *search) choice() Choice {
	c := Choice{Candidates: slices.Clone(s.chosen)}
	for why, n := range s.passed {
		if n > 0 {
			if c.PassedOver == nil {
				c.PassedOver = make([]PassedOver, 0, int(reasons)-why)
			}
			c.PassedOver = append(c.PassedOver, PassedOver{Reason: Reason(why), Count: int(n)})
		}
	}
	return c
}

// consult puts a seat that is online into its lane, or returns why it is passed over.
func (s *search) consult(a *appraisal) Reason {
	if a.opinion.Lane == trust.Shut {
		return NotVerified
	}
	s.survey(a)
	if reason := s.fits(a); reason != Eligible {
		return reason
	}
	return s.admit(a)
}

// survey notes the largest window and body that a provider takes that may serve.
func (s *search) survey(a *appraisal) {
	s.online++
	s.maxWindow = max(s.maxWindow, a.window)
	s.boundless = s.boundless || a.window == 0
	// Only providers that have what the request asks for say how large its body may be.
	if !s.capable(a.seat) {
		return
	}
	s.capables++
	s.maxBody = max(s.maxBody, a.seat.Session.MaxRequestBytes)
	s.bodyOpen = s.bodyOpen || a.seat.Session.MaxRequestBytes == 0
}

func (s *search) admit(a *appraisal) Reason {
	seat := a.seat
	rec := s.picker.deps.Health.Find(health.Pair{Provider: seat.Session.Provider, Model: seat.Offer.Model})
	where, why := laneOf(rec, a.opinion.Lane, s.req.Account, s.now)
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
		Trust: a.opinion.Trust, Probation: seat.Session.Probation, Grace: s.now.Before(a.opinion.GraceUntil),
		Success: 1, Load: load, Limit: limit,
		Uptime: seat.Session.Uptime, UptimeKnown: seat.Session.UptimeKnown,
	}
	o := option{
		seat: seat, record: rec, place: s.place(seat.Session.Provider), why: why,
		window: a.window, source: a.source,
	}
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
		return // it cannot be an alternate
	}
	s.seen[s.providers] = o.seat.Session.Provider
	s.providers++
}

// lead chooses a primary and its alternates in the tier, and reports whether there is a
// primary. last reports whether nobody may wait any more.
func (s *search) lead(last bool) bool {
	s.amongWanted()
	if s.sample() && s.choose() {
		return true
	}
	s.walk()
	if len(s.main) == 0 && s.busy > 0 && !last {
		return false // the probe lane does not take what overflows
	}
	return s.choose()
}

// fill adds alternates of a tier. The primary is of this tier or of one before it.
func (s *search) fill() {
	if len(s.chosen) == MaxCandidates {
		return
	}
	s.amongWanted()
	if !s.sample() {
		s.walk()
	}
	for _, c := range s.chosen {
		s.drop(c.Seat.Session.Provider)
	}
	if s.tier > s.chosen[0].Seat.Session.Tier() {
		s.outrank()
	}
	s.alternates()
}

// outrank counts the options of the tier as passed over, because a seat of an earlier tier
// leads.
func (s *search) outrank() {
	for _, lane := range [2][]option{s.main, s.probe} {
		for i := range lane {
			s.passOver(lane[i].seat.Session.Provider, Outranked)
		}
	}
}

// choose books a slot on a primary and draws alternates. It reports whether a slot could
// be booked.
func (s *search) choose() bool {
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
		return false
	}
	s.alternates()
	return true
}

// preferOthers counts the probe lane as passed over, because another provider leads.
func (s *search) preferOthers() {
	for i := range s.probe {
		s.passOver(s.probe[i].seat.Session.Provider, s.probe[i].why)
	}
}

// book draws options from a lane until a slot is booked. In the probe lane the breaker
// must grant its one probe, too.
func (s *search) book(from *[]option) bool {
	for len(*from) > 0 {
		o := s.draw(from)
		if !o.seat.Slots.Book(s.req.ID, s.now) {
			s.busy++ // another request was faster
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

// alternates adds other providers, degraded ones last. It leaves out providers whose
// breaker is half open, because the breaker's one probe is for a primary.
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

// mayBeHalfOpen reports whether the breaker of an option in the main lane is half open.
// Only a provider in the order can be in the main lane then.
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

// add makes an option a candidate. No other option of its provider can be one afterwards.
func (s *search) add(o option) {
	s.keep(Candidate{Seat: o.seat, Window: o.window, Source: o.source})
}

func (s *search) keep(c Candidate) {
	s.chosen = append(s.chosen, c)
	s.drop(c.Seat.Session.Provider)
}
