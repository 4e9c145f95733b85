package flow

import (
	"context"
	"maps"
	"slices"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// score has the answer scored by the hosts that were drawn, within ScoreTimeout. It never
// fails: the provider had its turn, and asking it again would show that it is watched. A
// record without a score proves nothing of what a reference would have judged.
func (p *passage) score(ctx context.Context) {
	plan, a := p.rec.Plan, p.rec.Answer
	if !a.Complete && !p.left || a.Served != plan.Offer.Provider.String() {
		return
	}
	ctx, cancel := within(ctx, p.cfg.ScoreTimeout)
	defer cancel()
	switch {
	case plan.Kind == probe.Fingerprint:
		p.expect(ctx)
	case scored(plan.Kind):
		text, v := judge.Text(a.Raw)
		if v != statistic.None || text == "" {
			return // Judge finds the same
		}
		if body, err := scoringBody(plan, p.rec.Request, judge.Scored(a.Raw)); err == nil {
			p.scores(ctx, body, text)
		}
	default:
		if body, err := unstreamed(p.rec.Request); err == nil {
			p.scores(ctx, body, "")
		}
	}
}

// role is what a score is for.
type role struct {
	alternative string
	second      bool
}

// scores asks each role once. text is the answer that is scored; empty where references
// answer themselves.
func (p *passage) scores(ctx context.Context, body []byte, text string) {
	done := map[role]string{}
	untilFree(ctx, func() bool {
		waiting := map[role]bool{}
		for _, host := range p.scorers {
			r := role{host.alternative, host.second}
			if _, have := done[r]; have || host.second && done[role{}] == host.host {
				continue
			}
			if _, judged := done[role{}]; !judged && r != (role{}) {
				break // without the model's own score the rest says nothing
			}
			raw, ok, busy := p.one(ctx, host, body)
			if waiting[r] = waiting[r] || busy; ok && p.keep(host, raw, text) {
				done[r], waiting[r] = host.host, false
			}
		}
		return slices.Contains(slices.Collect(maps.Values(waiting)), true)
	})
}

// keep adds a score to the record, and reports whether there was room.
func (p *passage) keep(host scorer, raw []byte, text string) bool {
	if text != "" {
		raw = judge.Trim(raw, text)
	}
	if len(raw) > p.room() {
		return false
	}
	p.rec.Scores = append(p.rec.Scores, judge.Score{
		Host: host.host, Class: host.class, Alternative: host.alternative, Raw: raw,
	})
	return true
}

// one asks one host.
func (p *passage) one(ctx context.Context, host scorer, body []byte) (raw []byte, ok, busy bool) {
	body, err := withModel(body, p.rec.Plan.Offer.Model, host.model)
	if err != nil {
		return nil, false, false
	}
	reply, ok, busy := p.refer(ctx, host.host, Challenge{
		ID: p.rec.Plan.ID.String(), Model: host.model, Timeout: min(p.cfg.ScoreTimeout, maxChallenge), Body: body,
		Embeddings: p.rec.Plan.Kind == probe.Embedding,
	})
	return reply.Data, ok, busy
}
