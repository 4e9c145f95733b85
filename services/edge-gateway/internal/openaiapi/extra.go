package openaiapi

import (
	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/openai"
)

// Members whose meaning is the engine's own. A chat template may put any of them into the
// prompt, so all text in them counts.

// beside consumes the value of a member that stands beside the messages or
// inputs, whose name has so many bytes.
func (p *parser) beside(name int) {
	tokens, bound := p.foreignText(name)
	p.aside += tokens
	p.asideBound += bound
}

// other consumes the value of a member of a message, or of a part's payload,
// whose name has so many bytes.
func (p *parser) other(name int) {
	tokens, bound := p.foreignText(name)
	p.req.PromptTokens += tokens
	p.req.PromptBound += bound
}

// foreignText consumes a value and returns its tokens and their bound. Texts, objects and
// arrays count in full. Numbers, booleans and the member's own name are in the bound
// only, a token for each byte, because samplers take them and hardly any template does.
func (p *parser) foreignText(name int) (tokens, bound int64) {
	kind := p.cur.Kind()
	raw := p.cur.Skip().Of(p.data)
	if p.cur.Failed() {
		return 0, 0
	}
	switch kind {
	case jsonscan.String, jsonscan.Array, jsonscan.Object:
		n, most := openai.EstimateAndBound(raw[1 : len(raw)-1])
		return int64(n), int64(most + name)
	default:
		return 0, int64(len(raw) + name)
	}
}

// foreign consumes the value of a member of a content part whose name has so
// many bytes. Unlike elsewhere, its strings may be media: data and addresses.
func (p *parser) foreign(name int) {
	p.req.PromptBound += int64(name)
	switch p.cur.Kind() {
	case jsonscan.Object:
		p.cur.Enter()
		for !p.stopped() {
			key, ok := p.cur.NextMember()
			if !ok {
				return
			}
			p.count(key.Span.Of(p.data))
			p.foreign(0)
		}
	case jsonscan.Array:
		p.cur.Enter()
		for !p.stopped() && p.cur.NextElement() {
			p.foreign(0)
		}
	case jsonscan.String:
		raw := p.cur.Skip().Of(p.data)
		if !p.cur.Failed() {
			p.foreignString(raw)
		}
	default:
		p.other(0)
	}
}
