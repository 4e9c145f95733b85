package openaiapi

import (
	"math"

	"svc.internal/pkg/jsonscan"
)

// readEmbeddings consumes the value of a member of an embeddings request.
func (p *parser) readEmbeddings(f field) {
	switch f {
	case fieldInput:
		p.input()
	case fieldEncodingFormat:
		switch p.text(MaxNameBytes) {
		case "float":
		case "base64":
			p.req.Base64 = true
		default:
			p.refuse("must be float or base64")
		}
	case fieldDimensions:
		p.integer(1, MaxDimensions)
	default:
		p.read(f)
	}
}

// input reads a text, tokens, or an array of either.
func (p *parser) input() {
	switch p.cur.Kind() {
	case jsonscan.String:
		p.inputText()
	case jsonscan.Array:
		switch p.firstKind() {
		case jsonscan.Number:
			p.inputTokens()
		case jsonscan.String:
			p.elements(MaxInputs, func(int) { p.inputText() })
		case jsonscan.Array:
			p.elements(MaxInputs, func(int) { p.inputTokens() })
		default:
			p.wrongInput()
		}
	default:
		p.wrongKind("string or array")
	}
}

// firstKind returns the kind of the first element of the array that begins here; Invalid
// when there is none.
func (p *parser) firstKind() jsonscan.Kind {
	ahead := p.cur
	ahead.Enter()
	if !ahead.NextElement() {
		return jsonscan.Invalid
	}
	return ahead.Kind()
}

// wrongInput refuses an array that is empty or begins with a value that is no input. The
// cursor refuses an array that is no JSON.
func (p *parser) wrongInput() {
	if p.cur.Skip(); p.cur.Failed() {
		return
	}
	p.refuse("must be a string, an array of strings, or one or more arrays of tokens, and not empty")
}

func (p *parser) inputText() {
	raw := p.kind(jsonscan.String)
	if p.stopped() {
		return
	}
	if len(raw) == len(`""`) {
		p.refuse("must not be empty")
		return
	}
	before := p.req.PromptTokens
	p.count(raw[1 : len(raw)-1])
	p.oneInput(p.req.PromptTokens - before)
}

// inputTokens reads one input that the client has made tokens of itself.
func (p *parser) inputTokens() {
	left := MaxInputTokens - int(p.req.PromptTokens) // an array of tokens has neighbours of its kind alone
	n := p.elements(left, func(int) { p.integer(0, math.MaxInt32) })
	if p.stopped() {
		return
	}
	if n == 0 {
		p.refuse("must not be empty")
		return
	}
	p.req.PromptTokens += int64(n)
	p.req.PromptBound += int64(n)
	p.oneInput(int64(n))
}

func (p *parser) oneInput(tokens int64) {
	p.req.Inputs++
	p.req.LargestTokens = max(p.req.LargestTokens, tokens)
}
