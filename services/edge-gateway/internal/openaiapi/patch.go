package openaiapi

import "svc.internal/pkg/jsonscan"

// optionsAt says where stream_options stands.
type optionsAt struct {
	inside  int // offset behind its opening brace
	empty   bool
	include jsonscan.Span // the value of include_usage
}

// options reads stream_options.
func (p *parser) options() {
	at := &p.streamOptions
	at.empty = true
	p.members(func(name []byte) {
		at.empty = false
		switch {
		case string(name) == "include_usage" && !at.include.Found():
			p.push("include_usage")
			start := p.cur.Pos()
			p.req.IncludeUsage = p.optionalBoolean()
			at.include = jsonscan.Span{Start: start, End: p.cur.Pos()}
			p.leave()
		case string(name) == "include_usage", foldsTo(name, "include_usage"):
			p.duplicate("include_usage")
		default:
			p.beside(len(name))
		}
	})
	at.inside = p.at[fieldStreamOptions] + 1
}

// forceUsage notes the edit after which the engine reports usage in a stream,
// whatever the client asked for. Other options stay as they are.
func (p *parser) forceUsage() {
	at := &p.streamOptions
	switch {
	case !p.met[fieldStreamOptions]:
		p.edit(jsonscan.Span{Start: p.open, End: p.open}, `"stream_options":{"include_usage":true},`)
	case !p.present[fieldStreamOptions]:
		p.edit(p.null(fieldStreamOptions), `{"include_usage":true}`)
	case at.include.Found():
		if !p.req.IncludeUsage {
			p.edit(at.include, "true")
		}
	case at.empty:
		p.edit(jsonscan.Span{Start: at.inside, End: at.inside}, `"include_usage":true`)
	default:
		p.edit(jsonscan.Span{Start: at.inside, End: at.inside}, `"include_usage":true,`)
	}
}

// finishChat asks for usage in every stream, and notes where the bound of the
// answer is written.
func (p *parser) finishChat() error {
	if p.req.Stream {
		p.forceUsage()
	}
	p.boundAnswer()
	return nil
}

// boundAnswer notes the edits that write the bound of the answer: always as
// max_tokens, and as max_completion_tokens where the client used that name,
// because engines differ in which of the two they obey.
func (p *parser) boundAnswer() {
	bound := func(span jsonscan.Span) {
		p.req.edits = append(p.req.edits, edit{span: span, role: answerBound})
	}
	switch at := (jsonscan.Span{Start: p.open, End: p.open}); {
	case p.present[fieldMaxTokens]:
		bound(p.maxTokens)
	case p.met[fieldMaxTokens]:
		bound(p.null(fieldMaxTokens))
	default:
		p.edit(at, `"max_tokens":`)
		bound(at)
		p.edit(at, ",")
	}
	if p.present[fieldMaxCompletionTokens] {
		bound(p.maxCompletionTokens)
	}
}

func (p *parser) edit(span jsonscan.Span, text string) {
	p.req.edits = append(p.req.edits, edit{span: span, text: text})
}

// stripper turns the members that are not sent on into ranges to cut, commas
// included.
type stripper struct {
	end      int  // of the member before
	leading  bool // every member so far was cut
	dangling int  // the edit that extends to the next key; -1 for none
}

// next hears where the next key begins.
func (s *stripper) next(edits []edit, keyStart int) {
	if s.dangling >= 0 {
		edits[s.dangling].span.End = keyStart
		s.dangling = -1
	}
}

// cut notes that the member from keyStart to end goes. Behind a member that
// stays it takes the comma before it; ahead of all that stay, the one behind.
func (s *stripper) cut(edits []edit, keyStart, end int) []edit {
	span := jsonscan.Span{Start: s.end, End: end}
	if s.leading {
		span.Start = keyStart
		s.dangling = len(edits)
	}
	s.end = end
	return append(edits, edit{span: span})
}

// kept notes that a member stays.
func (s *stripper) kept(end int) {
	s.leading = false
	s.end = end
}
