package inference

import (
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/rewrite"
)

// maxPending bounds the bytes of a stream that are kept before its first content.
const maxPending = 64 << 10

// output makes the client's answer of a candidate's answer and hands it to the sink. It does not know the
// attempt, which decides when events are written and whether they are paid for.
type output struct {
	sink   Sink
	stream bool

	// State of the candidate under way.
	form    rewrite.Form
	pending []*hubv1.DispatchEvent // of a stream, before its first content
	size    int                    // of pending
	body    []byte                 // of a whole answer
	events  [4]rewrite.Event       // room for what a form appends

	flow
}

// begin drops the answer of the candidate before.
func (o *output) begin(form rewrite.Form) {
	o.form, o.pending, o.size, o.body = form, nil, 0, nil
}

// fits reports whether a client may get an event of a stream.
func (o *output) fits(e *hubv1.DispatchEvent) bool {
	return len(e.GetJson()) <= rewrite.MaxEvent && o.form.Fits(e.GetJson())
}

// keep keeps an event without content; it reports false when there are too many.
func (o *output) keep(e *hubv1.DispatchEvent) bool {
	o.pending = append(o.pending, e)
	o.size += len(e.GetJson())
	return o.size <= maxPending && len(o.pending) <= maxPending/1024
}

// accept takes a whole answer. It reports false when no client could read the answer, or when it is a second
// one.
func (o *output) accept(body []byte) (ok bool) {
	if o.stream {
		return true
	}
	if o.body != nil {
		return false
	}
	if o.body, ok = o.form.Accept(body); o.body == nil {
		o.body = []byte{} // it has come, although there is nothing in it
	}
	return ok
}

// pass gathers an event of a stream behind the events that were kept before it.
func (o *output) pass(e *hubv1.DispatchEvent) {
	for _, kept := range o.pending {
		o.send(o.form.Event(o.events[:0], rewrite.Event{Name: kept.GetName(), JSON: kept.GetJson()}))
	}
	o.pending = nil
	o.send(o.form.Event(o.events[:0], rewrite.Event{Name: e.GetName(), JSON: e.GetJson()}))
}

// end gathers the end of a stream that was served.
func (o *output) end(usage rewrite.Usage) { o.send(o.form.End(o.events[:0], usage)) }

// cut gathers the end of a stream that breaks off, if a candidate has been tried.
func (o *output) cut() {
	if o.form != nil {
		o.send(o.form.Cut(o.events[:0]))
	}
}

// whole returns the end of an answer that is no stream, without its cost and latency.
func (o *output) whole(usage rewrite.Usage) (w Whole) {
	w.ContentType, w.Body = o.form.Whole(o.body, usage)
	o.bytes += int64(len(w.Body))
	return w
}

// send gathers events for the client.
func (o *output) send(events []rewrite.Event) {
	for _, e := range events {
		o.gather(e)
		o.sink.Event(e)
	}
}

// flow counts what is on its way to the client.
type flow struct {
	gathered int   // bytes that wait for the next flush
	bytes    int64 // of JSON, taken for the client
	flushed  int64 // of them by the last flush
	failed   bool  // a write has failed: the client has left or is too slow
}

// frame is about how many bytes a dialect adds to the JSON of one event.
const frame = len("data: \n\n")

func (f *flow) gather(e rewrite.Event) {
	f.gathered += frame + len(e.JSON)
	f.bytes += int64(len(e.JSON))
}

// written notes that all gathered bytes have been written.
func (f *flow) written() { f.gathered, f.flushed = 0, f.bytes }

// drop notes that the gathered bytes will not be written.
func (f *flow) drop() { f.gathered, f.bytes = 0, f.flushed }
