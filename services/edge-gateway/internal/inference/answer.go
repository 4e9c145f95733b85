package inference

import (
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/rewrite"
)

// answer is one attempt's answer on its way to the client.
type answer struct {
	form    rewrite.Form
	stream  bool
	done    bool                   // its stream ends with [DONE]
	pending []*hubv1.DispatchEvent // of a stream, before its first content
	size    int                    // of pending
	body    []byte                 // of a whole answer
	events  [4]rewrite.Event       // room for what the form appends
}

func newAnswer(call *Call, now func() time.Time) answer {
	spec := call.spec()
	form := rewrite.New(&spec, now)
	if call.Part != nil {
		form = call.Part.form(form)
	}
	done := spec.Kind == rewrite.Chat || spec.Kind == rewrite.Completion
	return answer{form: form, stream: call.Stream, done: done}
}

// spec is what the client asked for, as far as its answer shows it.
func (c *Call) spec() rewrite.Spec {
	return rewrite.Spec{
		Kind:        c.kind(),
		RequestID:   c.RequestID,
		Model:       c.Order.ModelID,
		Stream:      c.Stream,
		ShowUsage:   c.IncludeUsage,
		ShowCost:    c.IncludeCost,
		Choices:     int(c.Choices),
		Base64:      c.Base64,
		Text:        c.Form == hubv1.AnswerForm_ANSWER_FORM_TEXT,
		ContentType: c.AnswerType,
		Verbose:     c.Verbose,
	}
}

func (c *Call) kind() rewrite.Kind {
	switch {
	case c.Endpoint == hubv1.Endpoint_ENDPOINT_EMBEDDINGS:
		return rewrite.Embeddings
	case c.Endpoint == hubv1.Endpoint_ENDPOINT_IMAGES:
		return rewrite.Images
	case c.Endpoint == hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS:
		return rewrite.Transcript
	case c.Legacy:
		return rewrite.Completion
	}
	return rewrite.Chat
}

// keep keeps an event that has no content; false when there are too many.
func (a *answer) keep(e *hubv1.DispatchEvent) bool {
	a.pending = append(a.pending, e)
	a.size += len(e.GetJson())
	return a.size <= maxPending && len(a.pending) <= maxPending/1024
}

// accept takes a whole answer; false when no client could read it, or when it
// is a second one.
func (a *answer) accept(body []byte) (ok bool) {
	if a.stream {
		return true
	}
	if a.body != nil {
		return false
	}
	if a.body, ok = a.form.Accept(body); a.body == nil {
		a.body = []byte{} // it has come, although there is nothing in it
	}
	return ok
}

// add takes an event of a stream with what was kept before it.
func (a *answer) add(out *output, e *hubv1.DispatchEvent) {
	if !a.stream {
		return
	}
	for _, kept := range a.pending {
		a.pass(out, kept)
	}
	a.pending = nil
	a.pass(out, e)
}

func (a *answer) pass(out *output, e *hubv1.DispatchEvent) {
	out.add(a.form.Event(a.events[:0], rewrite.Event{Name: e.GetName(), JSON: e.GetJson()}))
}

// release gives up what waits for what is billed.
func (a *answer) release(out *output) {
	if a.form != nil {
		out.add(a.form.Cut(a.events[:0]))
	}
}

// end ends a stream that was served to its end.
func (a *answer) end(out *output, billed rewrite.Usage) {
	out.add(a.form.End(a.events[:0], billed))
	if a.done {
		out.doneEvent()
	}
}

// usage is what the client is shown of what is billed.
func (s *session) usage(m *hubv1.DispatchFinished, cost string) rewrite.Usage {
	usage := rewrite.Usage{Prompt: m.GetBillablePromptTokens(), Completion: m.GetBillableCompletionTokens()}
	if s.call.IncludeCost {
		usage.Cost = cost
	}
	return usage
}
