package plan

import (
	"math/rand/v2"
	"strconv"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/schedule"
)

// turn plans one offer for one hour.
type turn struct {
	Offer
	planner *Planner
	fleet   *Fleet
	slot    slot
	past    Past
	stratum calibration.Stratum
	planned []Planned
}

const (
	// maxAnHour bounds the arrivals of an hour. An hour that has all of an offer's requests
	// has 43 in the mean.
	maxAnHour = 2 * schedule.Highest
	// visibleADay is the rate of offers that consumers do not reach: their provider sees
	// every challenge, and V has a twentieth of the evidence.
	visibleADay = 2
)

func (t *turn) run() {
	stratum, ok := t.Stratum()
	if hour := t.slot.begin.Unix() / 3600; ok && t.past.Hour != hour {
		t.past.Hour, t.stratum = hour, stratum
		for i, due := range t.arrivals() {
			if t.past.Arrivals < schedule.Highest {
				t.arrive("arrival "+strconv.Itoa(i), due)
			}
		}
		t.measure()
		t.beyond()
		t.fingerprint()
	}
}

// arrivals returns when the probes of the hour are due, as long as they count for the
// observations of a year.
func (t *turn) arrivals() []time.Time {
	rate := schedule.Rate(t.standing(t.slot.begin))
	if !t.Active {
		rate = min(rate, visibleADay)
	}
	d := t.dice("arrivals")
	room := min(maxAnHour, evidence.Horizon-t.Observations)
	var due []time.Time
	for at := t.slot.begin; len(due) < room; {
		if at = schedule.Next(at, rate, t.Hours, positive(d)); !at.Before(t.slot.end()) {
			break
		}
		due = append(due, at)
	}
	return due
}

// arrive plans one arrival: the first of what it may ask that fits.
func (t *turn) arrive(name string, due time.Time) {
	d := t.dice(name)
	p := t.probe(name, due)
	switch {
	case !t.Active:
		t.visible(d, p)
	case t.Embeddings:
		t.embedding(d, p)
	default:
		_ = t.recall(d, p) || t.replay(p) || t.chat(d, p)
	}
}

func (t *turn) dice(name string) *rand.Rand {
	return t.planner.secret.dice(name, t.Offer.Offer, t.slot.begin.Unix())
}

// probe returns the plan of a hidden probe, without what it asks.
func (t *turn) probe(name string, due time.Time) probe.Plan {
	return probe.Plan{
		ID: t.planner.secret.id(t.Offer.Offer, name, t.slot.begin), Offer: t.Offer.Offer,
		Flow: probe.Hidden, Purpose: probe.Evidence, DueAt: due.UTC(), BytesPerToken: t.BytesPerToken,
		Stratum: t.stratum, AvoidHost: t.AvoidHost,
	}
}

// limit is which budgets a probe must fit.
type limit bool

const (
	// offerAndFleet is for all probes but those that measure a window. A measurement is
	// rare, is over after a few prompts, and at the stated window would take many days of
	// the offer's budget.
	offerAndFleet limit = true
	fleetAlone    limit = false
)

// left returns what a probe may cost.
func (t *turn) left(by limit) money.NanoUSD {
	left := t.fleet.left(t.slot.begin)
	if by == offerAndFleet {
		left = min(left, t.allowance()-t.past.Spent)
	}
	return max(left, 0)
}

// add adds a probe that fits, and reports whether it does. A probe that was due before the
// plan began counts, so that the offer's past does not depend on when the hour was
// planned, and is not sent.
func (t *turn) add(p probe.Plan, by limit) bool {
	cost := Cost(p, t.Rates)
	if cost > t.left(by) || p.Check() != nil {
		return false
	}
	if p.Flow == probe.Hidden {
		t.fleet.Week.Probed(p.DueAt, shapeOf(p))
	}
	t.past.Spent += cost
	t.fleet.Spent += cost
	if !p.DueAt.Before(t.slot.from) {
		t.planned = append(t.planned, Planned{Plan: p, Cost: cost})
	}
	return true
}

// owed reports whether the offer has not had the least arrivals of a day.
func (t *turn) owed() bool { return t.past.Arrivals < schedule.Lowest }

// covered reports whether a hidden probe hides among requests, or is owed.
func (t *turn) covered(p probe.Plan) bool {
	s := shapeOf(p)
	return t.fleet.Week.Room(s) > 0 || t.owed() && !s.Logprobs
}

// shapeOf returns what providers see of a probe beside its text.
func shapeOf(p probe.Plan) cover.Shape {
	return cover.Shape{
		Streamed: p.Streamed, Greedy: p.Greedy, Logprobs: p.TopLogprobs > 0, Length: cover.LengthOf(p.PromptTokens),
	}
}
