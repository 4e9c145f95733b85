package openaiapi

import (
	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"
)

// readCompletion consumes the value of a member of a legacy completion. What
// chat cannot express is refused, and what says no more than chat does anyway
// is accepted and left out. All else means what it means in chat.
func (p *parser) readCompletion(f field) {
	switch f {
	case fieldPrompt:
		p.promptAsMessage()
	case fieldEcho:
		if p.boolean() {
			p.refuse("is not available on this endpoint")
		}
	case fieldSuffix:
		if p.text(MaxStopBytes) != "" {
			p.refuse("is not available on this endpoint")
		}
	case fieldBestOf:
		p.bestOf = p.integer(1, MaxChoices)
	case fieldLogprobs:
		p.refuse("is not available on this endpoint; POST /v1/chat/completions has logprobs and top_logprobs")
	case fieldTopLogprobs:
		p.refuse("is not available on this endpoint")
	case fieldMessages, fieldTools, fieldToolChoice, fieldFunctions, fieldFunctionCall, fieldParallelToolCalls:
		p.refuse("is a parameter of POST /v1/chat/completions")
	default:
		p.read(f)
	}
}

// promptAsMessage reads a string, or an array of exactly one, and notes the
// edits that make it the one message of a chat. Its bytes stay as they are.
func (p *parser) promptAsMessage() {
	begin, text := p.cur.Pos(), jsonscan.Span{}
	switch p.cur.Kind() {
	case jsonscan.String:
		text = p.cur.Skip()
	case jsonscan.Array:
		text = p.onlyString()
	default:
		p.wrongKind("string or array")
	}
	end := p.cur.Pos()
	if p.stopped() {
		return
	}
	p.count(text.Of(p.data)[1 : text.Len()-1])
	p.req.Messages = 1
	p.edit(p.key, `"messages"`)
	p.edit(jsonscan.Span{Start: begin, End: text.Start}, `[{"role":"user","content":`)
	p.edit(jsonscan.Span{Start: text.End, End: end}, `}]`)
}

// onlyString consumes an array of one string and gives that. What is no JSON is
// left to the cursor.
func (p *parser) onlyString() jsonscan.Span {
	inside := p.cur
	if p.cur.Skip(); p.cur.Failed() {
		return jsonscan.Span{}
	}
	inside.Enter()
	text := jsonscan.Span{}
	if inside.NextElement() && inside.Kind() == jsonscan.String {
		text = inside.Skip()
	}
	if !text.Found() || inside.NextElement() {
		p.refuse("must be one string: several prompts and prompts of tokens are not available on this endpoint")
	}
	return text
}

// finishCompletion gives the answer its default length, which is short, and
// refuses a choice among more answers than are given.
func (p *parser) finishCompletion() error {
	if p.bestOf > p.req.Choices {
		return fault.New(fault.Invalid, fault.InvalidValue,
			"best_of must not be larger than n on this endpoint").On("best_of")
	}
	if p.req.MaxTokens == 0 {
		p.req.MaxTokens, p.req.MaxTokensParam = DefaultCompletionTokens, fieldNames[fieldMaxTokens]
	}
	return p.finishChat()
}
