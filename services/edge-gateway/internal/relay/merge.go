package relay

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/money"
	"svc.internal/pkg/openai"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// maxMerged bounds the whole answers to all prompts of one request together, in
// bytes: as much as a hub takes of one.
const maxMerged = 12 << 20

// Merge makes one text completion of the answers to several prompts. Each prompt
// is a call of its own, and may run beside the others; its answer is a Part. Of a
// stream every event goes to the client as it comes, of whole answers each waits
// for the others. The choices of prompt i have the indexes from i × n on.
type Merge struct {
	w       http.ResponseWriter
	timeout time.Duration
	calls   []*Call
	// choices is how many answers each prompt has.
	choices int
	id      string // of the completion, as JSON
	// What the client wants to see of the usage.
	withUsage, withCost bool

	mu    sync.Mutex // guards all below, and w while a stream is written
	begun bool
	room  int
	like  []byte // an event of the stream
}

// Part is the answer to one of several prompts.
type Part struct {
	merge *Merge
	first int // the index of its first choice
	head  http.Header
	body  []byte // of a whole answer that has come
}

// NewMerge makes the calls, which must be alike but for their prompts, parts of
// one answer. It is named by the first.
func (e *Engine) NewMerge(w http.ResponseWriter, calls []*Call) *Merge {
	first := calls[0]
	m := &Merge{
		w: w, timeout: e.cfg.WriteTimeout, calls: calls, choices: max(int(first.Choices), 1), room: maxMerged,
		id:        string(jsonscan.AppendString(nil, legacyIDPrefix+first.RequestID)),
		withUsage: first.IncludeUsage || first.IncludeCost, withCost: first.IncludeCost,
	}
	for i, c := range calls {
		c.Part = &Part{merge: m, first: i * m.choices, head: http.Header{}}
		c.IncludeUsage, c.IncludeCost = false, false // it is told once, of all
	}
	return m
}

// begin sends the headers of the stream, which name the provider of the part that
// comes first.
func (p *Part) begin() {
	p.merge.mu.Lock()
	defer p.merge.mu.Unlock()
	if p.merge.begun {
		return
	}
	p.merge.begun = true
	p.CopyHeaders()
	beginStream(p.merge.w)
}

// CopyHeaders gives the client's answer what the part says of its provider.
func (p *Part) CopyHeaders() { maps.Copy(p.merge.w.Header(), p.head) }

// accept reports whether a whole answer has choices and fits beside the others.
// Nobody is committed to it yet.
func (p *Part) accept(body []byte) bool {
	if _, ok := choicesOf(body); !ok {
		return false
	}
	p.merge.mu.Lock()
	defer p.merge.mu.Unlock()
	if p.merge.room < len(body) {
		return false
	}
	p.merge.room -= len(body)
	return true
}

// event gives an event of the part its place in the stream.
func (p *Part) event(json []byte) []byte {
	json = p.placed(json)
	if p.merge.withUsage && !mayTellUsage(json) {
		json = withNullUsage(json)
	}
	p.merge.mu.Lock()
	defer p.merge.mu.Unlock()
	if p.merge.like == nil {
		p.merge.like = json
	}
	return json
}

// placed gives a completion, or a chunk of one, the name that all parts have, and
// its choices their indexes. An index beyond those of the part counts as its last,
// so that no engine answers another prompt than its own.
func (p *Part) placed(json []byte) []byte {
	f := filler{data: json, cur: jsonscan.New(json, jsonscan.Options{}).Cursor()}
	return f.run(func() {
		f.object(nil, func(name string) {
			switch {
			case name == "id":
				f.replace(f.cur.Skip(), p.merge.id)
			case name == "choices" && f.cur.Kind() == jsonscan.Array:
				f.elements(func(i int) { p.choice(&f, i) })
			default:
				f.cur.Skip()
			}
		})
	})
}

func (p *Part) choice(f *filler, i int) {
	if f.cur.Kind() != jsonscan.Object {
		f.cur.Skip()
		return
	}
	index := strconv.Itoa(p.first + min(f.indexAhead(i), p.merge.choices-1))
	f.object([]member{{"index", index}}, func(name string) {
		if span := f.cur.Skip(); name == "index" {
			f.replace(span, index)
		}
	})
}

// choicesOf finds what stands between the brackets of an answer's choices.
func choicesOf(body []byte) (inside jsonscan.Span, ok bool) {
	for member, err := range jsonscan.New(body, jsonscan.Options{}).Members() {
		if err != nil {
			return jsonscan.Span{}, false
		}
		if string(member.Key.Name(body)) == "choices" {
			inside, ok = jsonscan.Span{Start: member.Value.Start + 1, End: member.Value.End - 1}, member.Kind == jsonscan.Array
		}
	}
	return inside, ok
}

// total is what is billed of all answers that were served.
func (m *Merge) total(results []Result) (usage usageOf, cost money.NanoUSD) {
	for i := range results {
		if u := results[i].Usage; u != nil {
			usage.prompt += u.GetBillablePromptTokens()
			usage.completion += u.GetBillableCompletionTokens()
			cost += m.calls[i].charge(u)
		}
	}
	if m.withCost {
		usage.cost = cost.String()
	}
	return usage, cost
}

// End ends the answer of calls that were all served, with what is billed of them
// together. The error is one of writing to the client.
func (m *Merge) End(results []Result, took time.Duration) error {
	usage, cost := m.total(results)
	out := newOutput(m.w, m.timeout)
	if m.calls[0].Stream {
		if m.withUsage {
			out.event("", usageEvent(m.like, usage))
		}
		out.doneEvent()
		return out.flush()
	}
	m.calls[0].Part.CopyHeaders()
	out.header().Set("X-Svc-Latency-Ms", strconv.FormatInt(took.Milliseconds(), 10))
	out.header().Set("X-Svc-Cost-Usd", cost.String())
	return out.whole(typeJSON, m.whole(usage))
}

// whole is the first answer with the choices of all.
func (m *Merge) whole(usage usageOf) []byte {
	first := m.calls[0].Part.placed(m.calls[0].Part.body)
	f := filler{data: first, cur: jsonscan.New(first, jsonscan.Options{}).Cursor()}
	return f.run(func() {
		f.object(nil, func(name string) {
			switch span := f.cur.Skip(); name {
			case "choices":
				f.replace(span, "["+m.choicesOfAll()+"]")
			case "usage":
				f.replace(span, usage.object())
			}
		})
	})
}

// choicesOfAll are the choices of all answers that have come.
func (m *Merge) choicesOfAll() string {
	var all []byte
	for _, c := range m.calls {
		body := c.Part.placed(c.Part.body)
		inside, ok := choicesOf(body)
		if text := bytes.TrimSpace(inside.Of(body)); ok && len(text) > 0 {
			if len(all) > 0 {
				all = append(all, ',')
			}
			all = append(all, text...)
		}
	}
	return string(all)
}

// Fail ends the answer with an error when some prompts were answered: a stream
// that has begun with an event, and otherwise the answers that are billed stand
// beside the error. It reports whether it has answered.
func (m *Merge) Fail(results []Result, a apierror.Answer, requestID string) bool {
	out := newOutput(m.w, m.timeout)
	if m.begun {
		out.errorEvent(a.Error, requestID)
		return true
	}
	usage, cost := m.total(results)
	choices := m.choicesOfAll()
	if choices == "" {
		return false
	}
	body := openai.AppendError(nil, a.Error, requestID)
	body = append(body[:len(body)-1], `,"choices":[`+choices+`],"usage":`+usage.object()+`}`...)
	a.SetHeaders(out.header())
	out.header().Set("X-Svc-Cost-Usd", cost.String())
	_ = out.answer(a.Status, typeJSON, body) // a client that left is nobody's fault
	return true
}
