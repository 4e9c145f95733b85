// Package plan decides which probes an offer gets, and writes their requests.
//
// # Hours
//
// Probes are planned for one UTC hour at a time. The arrivals within the hour are a
// Poisson process along the offer's own hours (package schedule). Poisson arrivals have no
// memory, so that beginning anew at each hour changes nothing, and a rate that changed
// acts within the hour. Everything random comes from HMAC-SHA-256 of the verifier's secret,
// a purpose, the offer and the hour. The same facts therefore give the same probes with
// the same ids: two replicas that plan one hour make each probe once, and an hour that was
// planned before a crash is planned again without a second probe. Whoever lacks the secret
// foresees nothing.
//
// # What an arrival asks
//
// The first of these that applies, once the offer is active:
//
//   - a recall that the week still lacks: one at 95 to 98% of the effective window and two
//     at 25 to 75%, each from a moment of the week that is drawn. It asks for all needles;
//   - an earlier sampled prompt that returns, at least six hours later. One sampled probe
//     in twenty returns;
//   - a chat of a shape that consumers use (package cover), half of them at temperature 0.
//     Log-probabilities are asked for only where the offer declares them and the week has
//     room. One chat in twelve tries such a shape first: family C is what betrays the
//     cheats that no other family sees, and a larger part would let the probes be told from
//     requests by it alone (package camouflage measures by what else they can be told).
//
// Beside the arrivals stand prompts that measure a window, hourly, checks of a measured
// one, six a day, and fingerprints. Visible chats are planned only for offers that no
// consumer reaches: inactive ones. A stated window above the effective one is asked for
// visibly once a week.
//
// # Bounds
//
// An offer has at most schedule.Highest arrivals in a UTC day, and none after the
// evidence.Horizon observations of a year. Its probes of a day cost at most $.02 or 1% of
// its payout, whichever is more, and those of all offers at most the fleet's budget, of
// which each hour releases a twenty-fourth. A probe that does not fit is left out.
//
// No hidden probe asks for a longer answer than the catalog allows, because gateways refuse
// such a request.
//
// A model without a reference of the class that the offer is judged by gets no probe,
// because nobody could judge the answer.
package plan

import (
	"time"

	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

// Planner plans probes. It is safe for concurrent use.
type Planner struct{ secret secret }

// New returns a planner that draws from a secret.
func New(s prompt.Secret) *Planner { return &Planner{secret(s)} }

// Plan plans the rest of the UTC hour in which from lies. Probes that would have been due
// before from are left out. The offers come in an order that is drawn for the hour, so
// that a budget that does not suffice starves none in particular. Offers without a probe
// are not in the result.
func (p *Planner) Plan(f *Fleet, from time.Time, offers []Offer) []Hour {
	from = from.UTC()
	slot := slot{begin: from.Truncate(time.Hour), from: from}
	var planned []Hour
	for _, i := range p.secret.dice("order", probe.Offer{}, slot.begin.Unix()).Perm(len(offers)) {
		o := turn{Offer: offers[i], secret: p.secret, fleet: f, slot: slot}
		o.past = o.Past.at(slot.begin, p.secret, o.Offer.Offer)
		o.run()
		if len(o.planned) > 0 {
			planned = append(planned, Hour{Offer: o.Offer.Offer, Probes: o.planned, Past: o.past})
		}
	}
	return planned
}
