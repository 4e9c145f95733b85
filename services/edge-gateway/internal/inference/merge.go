package inference

import (
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/pkg/openai"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// Merge writes one text completion of the answers to several prompts. Each prompt
// is a call of its own, and may run beside the others; its answer is a Part.
type Merge struct {
	w       http.ResponseWriter
	timeout time.Duration
	calls   []*Call
	answers *rewrite.Merge
	// What the client wants to see of the usage.
	withUsage, withCost bool

	mu    sync.Mutex // guards begun, and w while a stream is written
	begun bool
}

// Part is the answer to one of several prompts.
type Part struct {
	merge  *Merge
	prompt int
	head   http.Header
}

// NewMerge makes the calls, which must be alike but for their prompts, parts of
// one answer. It is named by the first.
func (e *Engine) NewMerge(w http.ResponseWriter, calls []*Call) *Merge {
	first := calls[0]
	withUsage := first.IncludeUsage || first.IncludeCost
	m := &Merge{
		w: w, timeout: e.cfg.WriteTimeout, calls: calls,
		answers:   rewrite.NewMerge(first.RequestID, len(calls), int64(first.Choices), withUsage),
		withUsage: withUsage, withCost: first.IncludeCost,
	}
	for i, c := range calls {
		c.Part = &Part{merge: m, prompt: i, head: http.Header{}}
		c.IncludeUsage, c.IncludeCost = false, false // it is told once, of all
	}
	return m
}

// form gives the form of an attempt its place in the answer.
func (p *Part) form(inner rewrite.Form) rewrite.Form { return p.merge.answers.Form(p.prompt, inner) }

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

// total is what is billed of all answers that were served.
func (m *Merge) total(results []Result) (usage rewrite.Usage, cost money.NanoUSD) {
	for i := range results {
		if u := results[i].Usage; u != nil {
			usage.Prompt += u.GetBillablePromptTokens()
			usage.Completion += u.GetBillableCompletionTokens()
			cost += m.calls[i].charge(u)
		}
	}
	if m.withCost {
		usage.Cost = cost.String()
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
			out.event(rewrite.Event{JSON: m.answers.UsageEvent(usage)})
		}
		out.doneEvent()
		return out.flush()
	}
	m.calls[0].Part.CopyHeaders()
	out.header().Set("X-Svc-Latency-Ms", strconv.FormatInt(took.Milliseconds(), 10))
	out.header().Set("X-Svc-Cost-Usd", cost.String())
	return out.whole(rewrite.TypeJSON, m.answers.Whole(usage))
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
	choices := m.answers.Choices()
	if len(choices) == 0 {
		return false
	}
	body := openai.AppendError(nil, a.Error, requestID)
	body = append(body[:len(body)-1], `,"choices":[`+string(choices)+`],"usage":`+usage.Object()+`}`...)
	a.SetHeaders(out.header())
	out.header().Set("X-Svc-Cost-Usd", cost.String())
	_ = out.answer(a.Status, rewrite.TypeJSON, body) // a client that left is nobody's fault
	return true
}
