package relay

import (
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// answer is one attempt's answer on its way to the client.
type answer struct {
	form    form
	stream  bool
	pending []*hubv1.DispatchEvent // of a stream, before its first content
	size    int                    // of pending
	body    []byte                 // of a whole answer
}

// form is what the answers of one endpoint are for the client: what is added,
// what waits until it is known what is billed, and how a stream ends. Nothing of
// an engine's own is taken away.
type form interface {
	// accept looks at a whole answer before anybody is committed to it, and may
	// convert it; false when no client could read it.
	accept(body []byte) ([]byte, bool)
	// whole is the body of an accepted answer, and its content type.
	whole(body []byte, billed usageOf) (contentType string, out []byte)
	// event takes an event of a stream.
	event(out *output, e *hubv1.DispatchEvent)
	// cut gives up what waits: the stream ends with an error.
	cut(out *output)
	// end ends a stream that was served to its end.
	end(out *output, billed usageOf)
}

func newAnswer(call *Call, now func() time.Time) answer {
	return answer{form: newForm(call, now), stream: call.Stream}
}

func newForm(call *Call, now func() time.Time) form {
	switch call.Endpoint {
	case hubv1.Endpoint_ENDPOINT_EMBEDDINGS:
		return &embeddings{base64: call.Base64, model: call.Order.ModelID}
	case hubv1.Endpoint_ENDPOINT_IMAGES:
		return &images{now: now, withCost: call.IncludeCost}
	case hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS:
		return &transcript{
			text: call.Form == hubv1.AnswerForm_ANSWER_FORM_TEXT, verbose: call.Verbose, contentType: call.AnswerType,
		}
	default:
		return newChat(call, now())
	}
}

// keep keeps an event that has no content; false when there are too many.
func (a *answer) keep(e *hubv1.DispatchEvent) bool {
	a.pending = append(a.pending, e)
	a.size += len(e.GetJson())
	return a.size <= maxPending && len(a.pending) <= maxPending/1024
}

// fit reports whether an event may be shown to the client.
func (a *answer) fit(event []byte) bool {
	pictures, ok := a.form.(*images)
	return !ok || pictures.fit(event)
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
	if a.body, ok = a.form.accept(body); a.body == nil {
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
		a.form.event(out, kept)
	}
	a.pending = nil
	a.form.event(out, e)
}

// release gives up what waits for what is billed.
func (a *answer) release(out *output) {
	if a.form != nil {
		a.form.cut(out)
	}
}

// usage is what the client is shown of what is billed.
func (s *session) usage(m *hubv1.DispatchFinished, cost string) usageOf {
	usage := usageOf{prompt: m.GetBillablePromptTokens(), completion: m.GetBillableCompletionTokens()}
	if s.call.IncludeCost {
		usage.cost = cost
	}
	return usage
}
