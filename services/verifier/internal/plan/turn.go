package plan

import (
	"math/rand/v2"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/schedule"
)

// turn plans one offer for one hour.
type turn struct {
	Offer
	secret  secret
	fleet   *Fleet
	slot    slot
	past    Past
	stratum calibration.Stratum
	planned []Planned
}

func (t *turn) dice(name string) *rand.Rand {
	return t.secret.dice(name, t.Offer.Offer, t.slot.begin.Unix())
}

// probe returns the plan of a hidden probe, without what it asks.
func (t *turn) probe(name string, due time.Time) probe.Plan {
	return probe.Plan{
		ID: t.secret.id(t.Offer.Offer, name, t.slot.begin), Offer: t.Offer.Offer,
		Flow: probe.Hidden, Purpose: probe.Evidence, DueAt: due.UTC(), BytesPerToken: t.bytesPerToken(),
		Stratum: t.stratum, AvoidHost: t.AvoidHost, AvoidAccounts: t.AvoidAccounts,
	}
}

// limit is which budgets a probe must fit.
type limit bool

const (
	// offerAndFleet is for all probes but those that measure a window. A measurement is
	// rare, is over after a few prompts, and at the stated window would take many days of
	// the offer's budget. It takes nothing of that budget, so that the other probes go on.
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
// plan began is not sent, and counts for nothing: a recall would take the place of the week's.
func (t *turn) add(p probe.Plan, by limit) bool {
	cost := Cost(p, t.Rates)
	if t.late(p) || cost > t.left(by) || p.Check() != nil {
		return false
	}
	if p.Flow == probe.Hidden {
		t.fleet.Week.Probed(p.DueAt, shapeOf(p))
	}
	if by == offerAndFleet {
		t.past.Spent += cost
	}
	t.fleet.Spent += cost
	t.planned = append(t.planned, Planned{Plan: p, Cost: cost})
	return true
}

// late reports whether a probe was due before the plan began.
func (t *turn) late(p probe.Plan) bool { return p.DueAt.Before(t.slot.from) }

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
