package openaiapi

import (
	"cmp"
	"slices"

	"svc.internal/pkg/jsonscan"
)

// edit replaces a byte range of the body; an empty range is an insertion.
type edit struct {
	span jsonscan.Span
	text string
}

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
			p.cur.Skip()
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

// finishChat asks for usage in every stream.
func (p *parser) finishChat() error {
	if p.req.Stream {
		p.forceUsage()
	}
	return nil
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

// Body appends to dst what is sent to the provider, with the model named by its
// catalog id, and gives where that name's JSON string stands in the result.
func (r *Request) Body(dst []byte, modelID string) (body []byte, model jsonscan.Span) {
	edits := slices.Clone(r.edits)
	if r.Model != modelID {
		edits = append(edits, edit{span: r.model, text: string(jsonscan.AppendString(nil, modelID))})
	}
	// An insertion at the place where a cut begins goes first.
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.span.Start, b.span.Start), cmp.Compare(a.span.End, b.span.End))
	})
	at, base := 0, len(dst)
	for _, e := range edits {
		if e.span.Start > r.model.Start && model.End == 0 {
			model.Start = len(dst) - base + r.model.Start - at
			model.End = model.Start + r.model.Len()
		}
		dst = append(dst, r.data[at:e.span.Start]...)
		if e.span == r.model {
			model = jsonscan.Span{Start: len(dst) - base, End: len(dst) - base + len(e.text)}
		}
		dst = append(dst, e.text...)
		at = e.span.End
	}
	if model.End == 0 {
		model.Start = len(dst) - base + r.model.Start - at
		model.End = model.Start + r.model.Len()
	}
	return append(dst, r.data[at:]...), model
}
