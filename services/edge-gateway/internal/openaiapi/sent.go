package openaiapi

import (
	"cmp"
	"slices"
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// maxBounds is how many members bound an answer: max_tokens and
// max_completion_tokens.
const maxBounds = 2

// maxDigits is the length of the longest bound.
const maxDigits = 20

// Sent is a body as a provider gets it. The zero spans of Bounds stand for none.
type Sent struct {
	Body []byte
	// Model is where the model's name stands: a JSON string, quotes included, or
	// in a form the bare text.
	Model jsonscan.Span
	// Bounds are where the bound of one choice stands as a number, in tokens.
	Bounds [maxBounds]jsonscan.Span
}

// For is the same body for another model and bound. name is as Model says.
func (s Sent) For(name []byte, maxTokens int64) Sent {
	type part struct {
		span  jsonscan.Span
		bound bool
	}
	parts := []part{{span: s.Model}}
	for _, b := range s.Bounds {
		if b.Found() {
			parts = append(parts, part{b, true})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.span.Start, b.span.Start) })
	w := writer{dst: make([]byte, 0, len(s.Body)+len(name)+maxBounds*maxDigits)}
	at := 0
	for _, p := range parts {
		w.dst = append(w.dst, s.Body[at:p.span.Start]...)
		if p.bound {
			w.bound(maxTokens)
		} else {
			w.model(name)
		}
		at = p.span.End
	}
	w.dst = append(w.dst, s.Body[at:]...)
	return w.sent()
}

// Name is the model's name as it stands in the body.
func (s Sent) Name() []byte { return s.Model.Of(s.Body) }

// writer appends a body and notes where its parts stand.
type writer struct {
	dst   []byte
	out   Sent
	count int // of bounds
}

func (w *writer) span(from int) jsonscan.Span {
	return jsonscan.Span{Start: from, End: len(w.dst)}
}

func (w *writer) model(name []byte) {
	from := len(w.dst)
	w.dst = append(w.dst, name...)
	w.out.Model = w.span(from)
}

func (w *writer) bound(maxTokens int64) {
	from := len(w.dst)
	w.dst = strconv.AppendInt(w.dst, maxTokens, 10)
	w.out.Bounds[w.count] = w.span(from)
	w.count++
}

func (w *writer) sent() Sent {
	w.out.Body = w.dst
	return w.out
}
