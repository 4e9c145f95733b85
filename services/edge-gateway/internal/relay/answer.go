package relay

import (
	"svc.internal/pkg/openai"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// answer is one attempt's answer on its way to the client.
type answer struct {
	stream   bool
	withCost bool
	pending  [][]byte // of a stream, before its first content
	size     int      // of pending
	held     []byte   // the last event with usage, until its cost is known
	body     []byte   // of a whole answer
}

func newAnswer(call *Call) answer { return answer{stream: call.Stream, withCost: call.IncludeCost} }

// keep keeps an event that has no content; false when there are too many.
func (a *answer) keep(json []byte) bool {
	a.pending = append(a.pending, json)
	a.size += len(json)
	return a.size <= maxPending && len(a.pending) <= maxPending/1024
}

// add takes an event with what was kept before it; false when the hub sent a
// second body for a whole answer.
func (a *answer) add(out *output, json []byte) bool {
	if !a.stream {
		fresh := a.body == nil
		a.body = json
		return fresh
	}
	for _, kept := range a.pending {
		a.emit(out, kept)
	}
	a.pending = nil
	a.emit(out, json)
	return true
}

// emit writes an event, but for one with usage when the client wants its cost:
// that one waits until the cost is known, or until another event follows.
func (a *answer) emit(out *output, json []byte) {
	if !a.withCost {
		out.event(json)
		return
	}
	if a.held != nil {
		out.event(a.held)
		a.held = nil
	}
	if chunk, err := openai.ScanChunk(json); err == nil && isObject(json, chunk.UsageSpan) {
		a.held = json
		return
	}
	out.event(json)
}

// end ends a stream.
func (a *answer) end(out *output, cost string) {
	if a.held != nil {
		if chunk, err := openai.ScanChunk(a.held); err == nil {
			out.event(addCost(nil, a.held, chunk.UsageSpan, cost))
		}
		a.held = nil
	}
	out.doneEvent()
}

// whole is the body of a whole answer, fit for strict clients.
func (a *answer) whole(m *hubv1.DispatchFinished, cost string) []byte {
	usage := usageOf{finished: m}
	if a.withCost {
		usage.cost = cost
	}
	return strict(a.body, usage)
}
