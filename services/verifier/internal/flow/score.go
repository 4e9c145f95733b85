package flow

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/statistic"
)

// referee is a host that scores. Several of one role stand in the order in which they are
// tried.
type referee struct {
	host, model string
	class       uint8
	// alternative is the one that the host stands for; empty for the model itself.
	alternative string
	// second marks the hosts of the second score, which the guard compares.
	second bool
}

// secondEvery is in how many probes one is scored by two hosts.
const secondEvery = 50

// draw draws the hosts that score: of the model itself first, then for each alternative.
// Several hosts of a role are tried until one of them answers.
func (p *passage) draw() []referee {
	plan := p.rec.Plan
	d := dice.New(p.Secret, "referees", plan.ID[:])
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
func (p *passage) of(d *rand.Rand, model string, class quant.Class) []referee {
	plan := p.rec.Plan
	var hosts []referee
	for _, s := range p.Offers.References(model) {
		fits := s.Model.Class == class && s.Host() != plan.AvoidHost && s.Host() != p.asked
		if fits && (plan.Kind != probe.Fingerprint || fingerprints(s)) {
			hosts = append(hosts, referee{host: s.Host(), model: model, class: uint8(s.Model.Class)})
		}
	}
	d.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return hosts
}

// seconds returns the hosts of the second score: those of other owners first. The host
// that scored first is left out when it is known.
func seconds(own []referee) []referee {
	if len(own) < 2 {
		return nil
	}
	others := slices.Clone(own[1:])
	owner, _, _ := strings.Cut(own[0].host, "/")
	slices.SortStableFunc(others, func(a, b referee) int {
		return cmp.Compare(sameOwner(a, owner), sameOwner(b, owner))
	})
	others = append(others, own[0])
	for i := range others {
		others[i].second = true
	}
	return others
}

func sameOwner(r referee, owner string) int {
	if strings.HasPrefix(r.host, owner+"/") {
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
func (p *passage) standIns(d *rand.Rand, g evidence.Alternative) []referee {
	var hosts []referee
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
func (p *passage) any(d *rand.Rand, model string) []referee {
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

// score has the answer scored by the hosts that were drawn. A record without a score
// proves nothing of what a reference would have judged.
func (p *passage) score(ctx context.Context) error {
	plan, a := p.rec.Plan, p.rec.Answer
	switch {
	case !a.Complete && !p.left, a.Served != plan.Offer.Provider.String():
		return nil
	case plan.Kind == probe.Fingerprint:
		return p.expect(ctx)
	case !scored(plan.Kind):
		body, err := unstreamed(p.rec.Request)
		if err != nil {
			return &Void{BadPlan, err}
		}
		return p.scores(ctx, body, "")
	}
	text, v := judge.Text(a.Raw)
	if v != statistic.None || text == "" {
		return nil // Judge finds the same
	}
	body, err := scoringBody(plan, p.rec.Request, text)
	if err != nil {
		return &Void{BadPlan, err}
	}
	return p.scores(ctx, body, text)
}

// scores asks each role once. Hosts of a role that has its score are passed over. text is
// the answer that is scored; empty where references answer themselves.
func (p *passage) scores(ctx context.Context, body []byte, text string) error {
	type role struct {
		alternative string
		second      bool
	}
	done := map[role]string{}
	for _, ref := range p.referees {
		r := role{ref.alternative, ref.second}
		if _, have := done[r]; have || ref.second && done[role{}] == ref.host {
			continue
		}
		if _, judged := done[role{}]; !judged && r != (role{}) {
			return nil // nobody scored the model itself, and the rest says nothing without
		}
		raw, ok, err := p.one(ctx, ref, body)
		if err != nil {
			return err
		}
		if text != "" {
			raw = judge.Trim(raw, text)
		}
		if !ok || len(raw) > p.room() {
			continue
		}
		done[r] = ref.host
		p.rec.Scores = append(p.rec.Scores, judge.Score{
			Host: ref.host, Class: ref.class, Alternative: ref.alternative, Raw: raw,
		})
	}
	return nil
}

// one asks one host. ok reports whether it answered.
func (p *passage) one(ctx context.Context, ref referee, body []byte) (raw []byte, ok bool, err error) {
	body, err = withModel(body, p.rec.Plan.Offer.Model, ref.model)
	if err != nil {
		return nil, false, &Void{BadPlan, err}
	}
	reply, err := p.refer(ctx, ref.host, Challenge{
		ID: p.rec.Plan.ID.String(), Model: ref.model, Timeout: min(p.cfg.ScoreTimeout, maxChallenge), Body: body,
		Embeddings: p.rec.Plan.Kind == probe.Embedding,
	})
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	if err != nil || reply.End != Answered {
		return nil, false, nil //nolint:nilerr // a reference that cannot score is no error of the probe
	}
	return reply.Data, true, nil
}

// The pauses before a busy reference is asked again.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
)

// refer asks a reference, and waits for a slot within ScoreTimeout.
func (p *passage) refer(ctx context.Context, host string, c Challenge) (Reply, error) {
	ctx, cancel := within(ctx, p.cfg.ScoreTimeout)
	defer cancel()
	seat := func() (offers.Seat, bool) { return p.Offers.On(host, c.Model) }
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		reply, err := p.challenge(ctx, seat, c)
		if !fault.Is(err, fault.ProviderBusy) && !fault.Is(err, fault.RateLimitExceeded) {
			return reply, err
		}
		if pause(ctx, wait) != nil {
			return Reply{}, fmt.Errorf("wait for a reference: %w", err)
		}
	}
}
