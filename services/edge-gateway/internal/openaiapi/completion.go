package openaiapi

import (
	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"
)

// readCompletion consumes the value of a member of a legacy completion. A member that
// chat cannot express is refused. A member that says no more than chat does anyway is
// accepted and left out. All other members mean the same as in chat.
func (p *parser) readCompletion(f field) {
	switch f {
	case fieldPrompt:
		p.promptAsMessage()
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

// promptAsMessage reads a string, or an array of strings, and notes the edits
// that make it the one message of a chat: of several strings, each of a chat of
// its own (see Request.Split). Their bytes stay as they are.
func (p *parser) promptAsMessage() {
	begin := p.cur.Pos()
	var prompts []promptAt
	switch p.cur.Kind() {
	case jsonscan.String:
		prompts = []promptAt{{text: p.cur.Skip()}}
	case jsonscan.Array:
		prompts = p.prompts()
	default:
		p.wrongKind("string or array")
	}
	end := p.cur.Pos()
	if p.stopped() {
		return
	}
	p.req.Messages = 1
	p.edit(p.key, `"messages"`)
	if len(prompts) == 1 {
		text := prompts[0].text
		p.count(text.Of(p.data)[1 : text.Len()-1])
		p.edit(jsonscan.Span{Start: begin, End: text.Start}, messageOpen)
		p.edit(jsonscan.Span{Start: text.End, End: end}, messageClose)
		return
	}
	for i := range prompts {
		tokens, bound := p.req.PromptTokens, p.req.PromptBound
		p.count(prompts[i].text.Of(p.data)[1 : prompts[i].text.Len()-1])
		prompts[i].tokens, prompts[i].bound = p.req.PromptTokens-tokens, p.req.PromptBound-bound
	}
	p.req.prompts = prompts
	p.req.edits = append(p.req.edits, edit{span: jsonscan.Span{Start: begin, End: end}, role: promptText})
}

// prompts consumes an array of strings. What is no JSON is left to the cursor.
func (p *parser) prompts() []promptAt {
	inside := p.cur
	if p.cur.Skip(); p.cur.Failed() {
		return nil
	}
	var found []promptAt
	for inside.Enter(); inside.NextElement(); {
		if inside.Kind() != jsonscan.String {
			p.refuse("must be a string or an array of strings: prompts of tokens are not available on this endpoint")
			return nil
		}
		if len(found) == MaxPrompts {
			p.refuse("must have at most %d elements", MaxPrompts)
			return nil
		}
		found = append(found, promptAt{text: inside.Skip()})
	}
	if len(found) == 0 {
		p.refuse("must not be an empty array")
	}
	return found
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
