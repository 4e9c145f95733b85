package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/window"
)

const (
	// Needles is how many needles a prompt has. All of them are asked for: of eight, honest
	// hosts that overlook one of twenty lose so many that half a window lost is seen in three
	// of four recalls only, and of sixteen it is seen always (package lab).
	Needles = prompt.MaxNeedles
	// maxBody bounds a challenge's prompt in bytes: agents of v1 take 1,047,552 of a body,
	// and JSON needs some more than the text.
	maxBody = 1_000_000
	// spread is within how many hours of its week the moments of recalls lie. The rest is
	// for arrivals that follow.
	spread = 132
	// questionBytes is how long the question for one needle is at most, and needleBytes
	// how long a needle with a number beside it is.
	questionBytes = 60
	needleBytes   = 120
	// lineBytes is how long a line of the answer is at most.
	lineBytes = 40
)

// recall plans the recall that the week still lacks. Where three quarters of the offer's
// budget of a day do not pay for its size, it is smaller.
func (t *turn) recall(d *rand.Rand, p probe.Plan) bool {
	near, middle := t.lacking()
	if !t.recallable() || !near && !middle {
		return false
	}
	share := .25 + .5*d.Float64()
	if near {
		share = .95 + .03*d.Float64()
	}
	p.Kind, p.Greedy, p.Streamed = probe.Recall, true, d.IntN(2) == 0
	p.MaxTokens = RecallAnswer(Needles, t.bytesPerToken())
	tokens := min(int(share*float64(t.EffectiveTokens)), t.EffectiveTokens-p.MaxTokens-Spare(t.bytesPerToken()))
	afford := float64(affordable(t.allowance()/4*3, p.MaxTokens, t.Rates))
	if float64(tokens) > afford {
		tokens = int(afford * (.8 + .2*d.Float64())) // all of the largest size would be known by it
	}
	if tokens < t.EffectiveTokens/4 || tokens > affordable(t.left(offerAndFleet), p.MaxTokens, t.Rates) {
		return false // too dear, or to wait for a day with more money left
	}
	Place(d, &p, tokens, Needles)
	if !t.covered(p) || !t.add(p, offerAndFleet) {
		return false
	}
	t.past.Arrivals++
	if near {
		t.past.NearFull++
	} else {
		t.past.Middle++
	}
	return true
}

// recallable reports whether a request of consumers can hold a recall: the window has room for
// it, and the catalog allows its answer. Another recall is put to the provider as a challenge.
func (t *turn) recallable() bool {
	return Recallable(t.EffectiveTokens, t.bytesPerToken(), Needles) &&
		t.answers(RecallAnswer(Needles, t.bytesPerToken()))
}

// lacking reports whether the offer's week has passed the drawn moment of a recall that it
// did not have yet.
func (t *turn) lacking() (near, middle bool) {
	s, o := t.secret, t.Offer.Offer
	now := int(t.past.hourOfWeek(t.slot.begin, s, o))
	d := s.dice("recalls", o, t.past.Week)
	near = t.past.NearFull == 0 && now >= d.IntN(spread)
	due := 0
	for range 2 {
		if now >= d.IntN(spread) {
			due++
		}
	}
	return near, t.past.Middle < due
}

// RecallAnswer returns how many tokens the answer to a question for n needles may have.
func RecallAnswer(n int, bytesPerToken float64) int {
	return min(probe.MaxAnswerTokens, n*int(math.Ceil(lineBytes/bytesPerToken))+16)
}

// Place sets the size of a recall, where its needles stand, and which are asked for: two
// within the first and the last 2% each, the others anywhere between. One of the two first
// is always asked for, because a window that is a little too small loses these alone.
func Place(d *rand.Rand, p *probe.Plan, tokens, ask int) {
	at := make([]int, Needles)
	for i := range at {
		share := .02 + .96*d.Float64()
		switch i {
		case 0, 1:
			share = .98 + .02*d.Float64()
		case 2, 3:
			share = .02 * d.Float64()
		}
		at[i] = int(share * float64(tokens))
	}
	placeAt(p, tokens, at, ask)
	if ask == Needles {
		return
	}
	oldest := Needles - 1 - d.IntN(2)
	p.Asked = []int{oldest}
	for _, i := range d.Perm(Needles) {
		if i != oldest && len(p.Asked) < ask {
			p.Asked = append(p.Asked, i)
		}
	}
	slices.Sort(p.Asked)
}

// distances returns how far from the prompt's end the last needle stands at least, behind
// the question, and how far needles stand from each other, in tokens.
func distances(bytesPerToken float64, ask int) (least, gap int) {
	gap = int(math.Ceil(needleBytes / bytesPerToken))
	return int(math.Ceil(questionBytes*float64(ask+2)/bytesPerToken)) + gap, gap
}

// Recallable reports whether a window holds a prompt with all needles, the question for so
// many, and the answer.
func Recallable(window int, bytesPerToken float64, ask int) bool {
	least, gap := distances(bytesPerToken, ask)
	return window >= least+(Needles+1)*gap+RecallAnswer(ask, bytesPerToken)+Spare(bytesPerToken)
}

// leastMeasured is how many needles' lengths a window has at least that can be measured:
// needles stand where a sentence ends, so that the place of each is known to a part of that.
const leastMeasured = 25

// Measurable returns the smallest and the largest window that a measurement can find of an
// offer that states so many tokens. The largest is the longest prompt that leaves room for the
// answer. Where it is not the larger, the window cannot be measured.
func Measurable(stated int, bytesPerToken float64) (smallest, largest int) {
	_, gap := distances(ratio(bytesPerToken), Needles)
	room := RecallAnswer(Needles, ratio(bytesPerToken)) + Spare(ratio(bytesPerToken))
	return leastMeasured * gap, stated - room
}

// placeAt sets where needles stand, at distances in tokens from the end, and asks for all.
// Needles keep a distance from each other and from the question, which stands at the end;
// a prompt that is too short for that becomes longer.
func placeAt(p *probe.Plan, tokens int, at []int, ask int) {
	least, gap := distances(ratio(p.BytesPerToken), ask)
	p.PromptTokens = max(tokens, least+(len(at)+1)*gap)
	slices.Sort(at)
	last := least - gap
	for i := range at {
		at[i] = max(at[i], last+gap)
		last = at[i]
	}
	for i := len(at) - 1; i >= 0; i-- {
		at[i] = min(at[i], p.PromptTokens-gap*(len(at)-1-i))
	}
	p.FromEnd = at
	p.Asked = make([]int, len(at))
	for i := range p.Asked {
		p.Asked[i] = i
	}
}

// measure plans the next prompt of a measurement: hourly while it runs, and six a day at
// the measured window while the offer is not normal again.
func (t *turn) measure() {
	m := t.Measurement
	if m == nil || t.Embeddings {
		return
	}
	d := t.dice("measure")
	due := t.slot.begin.Add(time.Duration(d.Int64N(int64(time.Hour))))
	p := t.probe("measure", due)
	p.Greedy, p.Streamed = true, d.IntN(2) == 0
	p.MaxTokens = RecallAnswer(Needles, t.bytesPerToken())
	switch phase := m.Phase(); {
	case phase == window.Measuring:
		next := m.Plan()
		p.Kind = probe.Measure
		placeAt(&p, next.Tokens, next.FromEnd[:], Needles)
	case phase == window.Checking, phase == window.Measured && t.checks():
		p.Kind = probe.Check
		Place(d, &p, m.CheckTokens(), Needles)
	default:
		return
	}
	if !t.Active || !t.answers(p.MaxTokens) || p.PromptTokens+p.MaxTokens+templateTokens > t.EffectiveTokens {
		p.Flow, p.Feeds = probe.Visible, evidence.Recall
	}
	t.add(p, fleetAlone)
}

// checkHours is how many hours lie between two checks of a measured window: six a day.
const checkHours = 4

// checks reports whether a measured window is checked in this hour: in one hour of four,
// which is drawn.
func (t *turn) checks() bool {
	hour := t.slot.begin.Unix() / 3600
	drawn := t.secret.dice("checks", t.Offer.Offer, hour/checkHours).Int64N(checkHours)
	return t.Level != ladder.Normal && hour%checkHours == drawn
}

// beyond plans the week's visible recall of a stated window that consumers do not get
// whole, or where no request of theirs can hold a recall.
func (t *turn) beyond() {
	s, o := t.secret, t.Offer.Offer
	d := s.dice("beyond", o, t.past.Week)
	reached := t.EffectiveTokens
	if !t.Active || !t.recallable() {
		reached = 0
	}
	due := int(t.past.hourOfWeek(t.slot.begin, s, o)) >= d.IntN(spread)
	possible := !t.Embeddings && t.StatedTokens > reached && Recallable(t.StatedTokens, t.bytesPerToken(), Needles)
	p := t.probe("beyond", t.slot.begin.Add(time.Duration(d.Int64N(int64(time.Hour)))))
	if t.past.Above > 0 || !due || !possible {
		return
	}
	p.Kind, p.Flow, p.Feeds, p.Greedy = probe.Recall, probe.Visible, evidence.Recall, true
	p.MaxTokens = RecallAnswer(Needles, t.bytesPerToken())
	share := .95 + .03*d.Float64()
	tokens := min(int(share*float64(t.StatedTokens)), t.StatedTokens-p.MaxTokens-Spare(t.bytesPerToken()))
	Place(d, &p, min(tokens, int(maxBody/t.bytesPerToken())), Needles)
	if t.add(p, offerAndFleet) {
		t.past.Above++
	}
}

// filesEvery is how many days lie between two fingerprints of an offer that is not new,
// watched or changed.
const filesEvery = 3

// fingerprint plans the fingerprint of the day, at a moment that is drawn.
func (t *turn) fingerprint() {
	if !t.Fingerprint {
		return
	}
	d := t.secret.dice("files", t.Offer.Offer, t.slot.begin.Unix()/86_400)
	s := t.standing(t.slot.begin)
	skip := d.IntN(filesEvery) != 0 && !s.New && !s.Watched && !s.Changed
	if hour := d.IntN(24); skip || hour != t.slot.begin.Hour() {
		return
	}
	p := t.probe("files", t.slot.begin.Add(time.Duration(d.Int64N(int64(time.Hour)))))
	p.Kind, p.Flow, p.PromptTokens = probe.Fingerprint, probe.Visible, 1
	t.add(p, offerAndFleet)
}
