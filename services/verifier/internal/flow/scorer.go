package flow

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/statistic"
)

// secondEvery is in how many probes one is scored by two hosts.
const secondEvery = 50

// draw draws the hosts that score: of the model itself first, then for each alternative.
// Several hosts of a role are tried until one of them answers.
func (p *passage) draw() []scorer {
	plan := p.rec.Plan
	d := dice.New(p.Secret, "scorers", plan.ID[:])
	own := p.of(d, plan.Offer.Model, p.class())
	all := slices.Clone(own)
	if p.oneIn("second", secondEvery) {
		all = append(all, seconds(own)...)
	}
	if !scored(plan.Kind) {
		return all
	}
	for _, g := range plan.Alternatives {
		all = append(all, p.standIns(d, g)...)
	}
	return all
}

// class is the class of the references that judge: the plan's, or the lowest there is.
func (p *passage) class() quant.Class {
	if c := p.rec.Plan.Stratum.Class; c.Known() {
		return c
	}
	lowest := quant.Unknown
	for _, s := range p.Offers.References(p.rec.Plan.Offer.Model) {
		if c := s.Model.Class; c.Known() && (lowest == quant.Unknown || c < lowest) {
			lowest = c
		}
	}
	return lowest
}

// of returns the hosts of a model and class in an order that is drawn. The host that is
// asked is never its own judge.
func (p *passage) of(d *rand.Rand, model string, class quant.Class) []scorer {
	plan := p.rec.Plan
	var hosts []scorer
	seats := p.Offers.References(model)
	owners := offers.Owners(seats)
	for _, s := range seats {
		fits := s.Model.Class == class && s.Host() != plan.AvoidHost && s.Host() != p.asked
		if fits && (plan.Kind != probe.Fingerprint || fingerprints(s)) {
			hosts = append(hosts, scorer{host: s.Host(), account: s.Provider, owner: owners.Of(s.Provider), model: model,
				class: uint8(s.Model.Class)})
		}
	}
	hosts = ofOthers(hosts, plan.AvoidAccounts)
	d.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return hosts
}

// ofOthers returns the hosts of other accounts, all where there is none: references of one
// owner confirm each other where nobody else serves the model.
func ofOthers(hosts []scorer, accounts []ids.ProviderID) []scorer {
	others := slices.DeleteFunc(slices.Clone(hosts), func(h scorer) bool { return slices.Contains(accounts, h.account) })
	if len(others) == 0 {
		return hosts
	}
	return others
}

// seconds returns the hosts of the second score: those of other owners first. The host
// that scored first is left out when it is known.
func seconds(own []scorer) []scorer {
	if len(own) < 2 {
		return nil
	}
	others := slices.Clone(own[1:])
	owner := own[0].owner
	slices.SortStableFunc(others, func(a, b scorer) int {
		return cmp.Compare(sameOwner(a, owner), sameOwner(b, owner))
	})
	others = append(others, own[0])
	for i := range others {
		others[i].second = true
	}
	return others
}

func sameOwner(r scorer, owner ids.ProviderID) int {
	if r.owner == owner {
		return 1
	}
	return 0
}

// classOf are the classes that alternatives stand for.
var classOf = map[evidence.Alternative]quant.Class{
	evidence.Class8: quant.Bits8, evidence.Class6: quant.Bits6, evidence.Class5: quant.Bits5,
	evidence.Class4: quant.Bits4, evidence.Class3: quant.Bits3, evidence.Class2: quant.Bits2,
}

// standIns returns the hosts that stand for an alternative. Those of temperature need
// none.
func (p *passage) standIns(d *rand.Rand, g evidence.Alternative) []scorer {
	var hosts []scorer
	if class, ok := classOf[g]; ok {
		hosts = p.of(d, p.rec.Plan.Offer.Model, class)
	} else if g == evidence.Sibling {
		if sibling := p.Siblings(p.rec.Plan.Offer.Model); sibling != "" {
			hosts = p.any(d, sibling)
		}
	}
	for i := range hosts {
		hosts[i].alternative = g.String()
	}
	return hosts
}

// any returns the hosts of a model in its widest class.
func (p *passage) any(d *rand.Rand, model string) []scorer {
	for _, s := range p.Offers.References(model) {
		if hosts := p.of(d, model, s.Model.Class); len(hosts) > 0 {
			return hosts
		}
	}
	return nil
}

// scored reports whether a reference reads the answer. For the other kinds it answers the
// same request itself.
func scored(k probe.Kind) bool {
	switch k {
	case probe.Greedy, probe.Sampled, probe.Logprobs, probe.Replay:
		return true
	default:
		return false
	}
}

// fingerprints reports whether a reference can answer a fingerprint.
func fingerprints(s offers.Seat) bool { return s.Has(offers.Fingerprints) }

// The pauses before a busy reference is asked again.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
)

// untilFree asks hosts in rounds until no host that is still wanted is busy, or ctx ends.
func untilFree(ctx context.Context, round func() (busy bool)) {
	for wait := firstPause; round(); wait = min(2*wait, maxPause) {
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// refer asks a reference. busy reports that it may be asked again soon.
func (p *passage) refer(ctx context.Context, host string, c Challenge) (reply Reply, ok, busy bool) {
	if ctx.Err() != nil {
		return Reply{}, false, false
	}
	c.MaxBytes = statistic.MaxBody // a reference states log-probabilities of the whole prompt
	seat := func() (offers.Seat, bool) { return p.Offers.On(host, c.Model) }
	reply, err := p.challenge(ctx, seat, c)
	busy = fault.Is(err, fault.ProviderBusy) || fault.Is(err, fault.RateLimitExceeded)
	return reply, err == nil && reply.End == Answered, busy
}
