package rewrite

import (
	"bytes"
	"strconv"
	"sync"

	"svc.internal/pkg/jsonscan"
)

// maxMerged bounds the whole answers to all prompts of one request together, in bytes. A
// hub takes as much of one answer.
const maxMerged = 12 << 20

// Merge makes one text completion of the answers to several prompts. It is safe for
// concurrent use.
//
// Each prompt is a request of its own and may run beside the others; its attempts have
// forms of the merge. Every event of a stream goes to the client as it comes, and each
// whole answer waits for the others. The choices of prompt i have the indexes from i × n
// on.
type Merge struct {
	id        string // of the completion, as JSON
	choices   int    // how many answers each prompt has
	showUsage bool   // the client wants to see the usage

	mu     sync.Mutex // guards all below
	room   int
	like   []byte   // an event of the stream
	bodies [][]byte // of the whole answers that have come, by their prompts
}

// NewMerge makes one answer of the answers to so many prompts, each with so many choices.
// The answer has the name of one request, the first.
func NewMerge(requestID string, prompts, choices int, showUsage bool) *Merge {
	return &Merge{
		id:      string(jsonscan.AppendString(nil, legacyIDPrefix+requestID)),
		choices: max(choices, 1), showUsage: showUsage,
		room: maxMerged, bodies: make([][]byte, prompts),
	}
}

// Form makes the form of prompt i's next attempt. It shows no usage, because the usage of
// all prompts is shown once.
func (m *Merge) Form(i int, inner Form) Form {
	return &part{Form: inner, merge: m, prompt: i, first: i * m.choices}
}

// part is the form of an attempt at one of several prompts.
type part struct {
	Form
	merge  *Merge
	prompt int
	first  int // the index of its first choice
}

// Accept accepts a whole answer that has choices and fits beside the others.
func (p *part) Accept(body []byte) (out []byte, ok bool) {
	out, ok = p.Form.Accept(body)
	if !ok {
		return out, false
	}
	if _, ok = choicesOf(out); !ok {
		return out, false
	}
	return out, p.merge.reserve(len(out))
}

// Whole is the body of the prompt's own answer, which the merge keeps.
func (p *part) Whole(body []byte, billed Usage) (contentType string, out []byte) {
	contentType, out = p.Form.Whole(body, billed)
	p.merge.mu.Lock()
	defer p.merge.mu.Unlock()
	p.merge.bodies[p.prompt] = out
	return contentType, out
}

// Event returns an event of the part with its place in the stream.
func (p *part) Event(dst []Event, e Event) []Event {
	return p.place(p.Form.Event(dst, e), len(dst))
}

// Cut returns the events that waited, with their places.
func (p *part) Cut(dst []Event) []Event { return p.place(p.Form.Cut(dst), len(dst)) }

// End returns the events that waited, with their places.
func (p *part) End(dst []Event, billed Usage) []Event {
	return p.place(p.Form.End(dst, billed), len(dst))
}

// place gives the events from an index on their place in the stream.
func (p *part) place(events []Event, from int) []Event {
	for i := range events[from:] {
		e := &events[from+i]
		e.JSON = p.merge.placed(e.JSON, p.first)
		if p.merge.showUsage && !mayTellUsage(e.JSON) {
			e.JSON = withNullUsage(e.JSON)
		}
		p.merge.resemble(e.JSON)
	}
	return events
}

// Choices are the choices of the answers that have come, without brackets.
func (m *Merge) Choices() []byte {
	var all []byte
	for i := range m.bodies {
		body := m.body(i)
		inside, ok := choicesOf(body)
		if text := bytes.TrimSpace(inside.Of(body)); ok && len(text) > 0 {
			if len(all) > 0 {
				all = append(all, ',')
			}
			all = append(all, text...)
		}
	}
	return all
}

// Whole is the first answer with the choices of all answers and what is billed of them
// together.
func (m *Merge) Whole(billed Usage) []byte {
	first := m.body(0)
	f := newFiller(first)
	return f.run(func() {
		f.object(nil, func(name string) {
			switch span := f.cur.Skip(); name {
			case "choices":
				f.replace(span, "["+string(m.Choices())+"]")
			case "usage":
				f.replace(span, billed.Object())
			}
		})
	})
}

// UsageEvent is the event of a stream with what is billed of all prompts.
func (m *Merge) UsageEvent(billed Usage) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return usageEvent(m.like, billed)
}

// reserve takes room for an answer and reports whether there was enough.
func (m *Merge) reserve(size int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room < size {
		return false
	}
	m.room -= size
	return true
}

// resemble keeps the first event of the stream, after which the last is modelled.
func (m *Merge) resemble(json []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.like == nil {
		m.like = json
	}
}

// body is the answer to prompt i in its place; empty while it has not come.
func (m *Merge) body(i int) []byte {
	m.mu.Lock()
	body := m.bodies[i]
	m.mu.Unlock()
	return m.placed(body, i*m.choices)
}

// placed gives a completion, or a chunk of one, the name that all parts have, and gives
// its choices their indexes from first on. An index beyond the indexes of its prompt
// counts as the last, so that no engine answers another prompt than its own.
func (m *Merge) placed(json []byte, first int) []byte {
	f := newFiller(json)
	return f.run(func() {
		f.object(nil, func(name string) {
			switch {
			case name == "id":
				f.replace(f.cur.Skip(), m.id)
			case name == "choices" && f.cur.Kind() == jsonscan.Array:
				f.elements(func(i int) { f.placedChoice(i, first, m.choices) })
			default:
				f.cur.Skip()
			}
		})
	})
}

// placedChoice gives its index to the i-th choice of an answer with so many choices.
func (f *filler) placedChoice(i, first, choices int) {
	if f.cur.Kind() != jsonscan.Object {
		f.cur.Skip()
		return
	}
	index := strconv.Itoa(first + min(f.indexAhead(i), choices-1))
	f.object([]member{{"index", index}}, func(name string) {
		if span := f.cur.Skip(); name == "index" {
			f.replace(span, index)
		}
	})
}

// choicesOf finds the text between the brackets of an answer's choices.
func choicesOf(body []byte) (inside jsonscan.Span, ok bool) {
	for member, err := range jsonscan.New(body, jsonscan.Options{}).Members() {
		if err != nil {
			return jsonscan.Span{}, false
		}
		if string(member.Key.Name(body)) == "choices" {
			inside = jsonscan.Span{Start: member.Value.Start + 1, End: member.Value.End - 1}
			ok = member.Kind == jsonscan.Array
		}
	}
	return inside, ok
}
