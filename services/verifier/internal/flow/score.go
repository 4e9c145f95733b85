package flow

import (
	"context"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

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
	for _, ref := range p.scorers {
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
func (p *passage) one(ctx context.Context, ref scorer, body []byte) (raw []byte, ok bool, err error) {
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
