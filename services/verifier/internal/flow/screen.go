package flow

import (
	"context"
	"encoding/json"
	"fmt"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// Screening. A void probe costs money and cover, and a cheat passes it for nothing. So a
// reference of those that were drawn to score answers the prompt first. If nobody could
// judge its answer (statistic.Screen), the probe's next prompt is drawn, at most
// probe.MaxDraws in all. The plan of the record names the draw, so that the prompt can be
// written again. The provider sees one request, whose length and parameters were planned
// before, and whose time moves by what a reference needs.
//
// The last prompt is used unseen, and so is any prompt that no reference answers at once and
// within Config.ScreenTimeout: a probe is worth more than its screening. That bounds what a
// probe costs references: three answers of statistic.JudgedTokens tokens.
//
// Only what is asked at temperature 0 is screened. Measured on the laboratory's model, of 300
// prompts, the honest answer at temperature 0 proves nothing of 44; of those that pass, of 1
// of 256. A sampled answer proves nothing of 95 of the 256 that pass, and of 17 of the 44
// that do not: when a sample ends is chance, which no other answer foretells.

// screenHosts is how many references are tried for a prompt.
const screenHosts = 2

// screenLogprobs is how many log-probabilities a reference states of its own answer.
const screenLogprobs = 5

// screens reports whether the prompts of a plan are screened.
func screens(plan probe.Plan) bool {
	chat := plan.Kind == probe.Greedy || plan.Kind == probe.Logprobs
	return chat && plan.Greedy && plan.Flow == probe.Hidden && plan.Purpose == probe.Evidence
}

// redraws reports whether the next prompt of the probe is to be drawn.
func (p *passage) redraws(ctx context.Context) bool {
	plan := p.rec.Plan
	return p.cfg.ScreenTimeout > 0 && screens(plan) && plan.Draw+1 < probe.MaxDraws && p.provesNothing(ctx)
}

// provesNothing reports whether a reference answers the prompt so that nobody could judge
// the answer.
func (p *passage) provesNothing(ctx context.Context) bool {
	body, err := screeningBody(p.rec.Plan, p.rec.Request)
	if err != nil {
		return false
	}
	tried := 0
	for _, host := range p.scorers {
		if host.alternative != "" || host.second {
			continue
		}
		if tried++; tried > screenHosts {
			break
		}
		if raw, ok, _ := p.one(ctx, host, body); ok {
			v := judge.Screened(raw)
			return v == statistic.TooShort || v == statistic.NotInformative
		}
	}
	return false
}

// screeningBody asks what the request asks, whole and with log-probabilities, for as much of
// an answer as is judged.
func screeningBody(plan probe.Plan, request []byte) ([]byte, error) {
	var asked struct {
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(request, &asked); err != nil {
		return nil, fmt.Errorf("read a request: %w", err)
	}
	return plainJSON(map[string]any{
		"model": asked.Model, "messages": asked.Messages, "max_tokens": min(plan.MaxTokens, statistic.JudgedTokens),
		"temperature": 0, "logprobs": true, "top_logprobs": screenLogprobs,
	})
}
