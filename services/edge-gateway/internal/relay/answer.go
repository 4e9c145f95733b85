package relay

import (
	"svc.internal/pkg/openai"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// answer is one attempt's answer on its way to the client.
type answer struct {
	stream    bool
	withUsage bool // the client of a stream asked for usage
	withCost  bool
	pending   [][]byte // of a stream, before its first content
	size      int      // of pending
	first     []byte   // the first event of a stream with usage
	held      []byte   // the last event with usage, until it is known what is billed
	usageOnly bool     // held has nothing else
	body      []byte   // of a whole answer
}

func newAnswer(call *Call) answer {
	return answer{stream: call.Stream, withUsage: call.IncludeUsage || call.IncludeCost, withCost: call.IncludeCost}
}

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

// emit writes an event, but for one with usage when the client wants that: the
// last of them waits until it is known what is billed. One that has content
// waits no longer than until another event follows.
func (a *answer) emit(out *output, json []byte) {
	if !a.withUsage {
		out.event(json)
		return
	}
	if a.first == nil {
		a.first = json
	}
	var chunk openai.Chunk
	hold := false
	if mayTellUsage(json) {
		var err error
		chunk, err = openai.ScanChunk(json)
		hold = err == nil && hasValue(json, chunk.UsageSpan)
	}
	if a.held != nil && (hold || !a.usageOnly) {
		a.release(out)
	}
	if hold {
		a.held, a.usageOnly = json, chunk.UsageOnly()
		return
	}
	out.event(json)
}

// release gives up an event that waits for what is billed. One that tells only
// an engine's usage is not shown.
func (a *answer) release(out *output) {
	if a.held != nil && !a.usageOnly {
		out.event(a.held)
	}
	a.held = nil
}

// end ends a stream. The usage that the client asked for is what is billed,
// whatever the engine said, and even if it said nothing.
func (a *answer) end(out *output, m *hubv1.DispatchFinished, cost string) {
	if a.withUsage {
		usage := a.usage(m, cost)
		if a.held == nil {
			out.event(usageEvent(a.first, usage))
		} else {
			out.event(billed(a.held, usage))
		}
		a.held = nil
	}
	out.doneEvent()
}

// whole is the body of a whole answer, fit for strict clients.
func (a *answer) whole(m *hubv1.DispatchFinished, cost string) []byte {
	return strict(a.body, a.usage(m, cost))
}

// usage is what the client is shown of what is billed.
func (a *answer) usage(m *hubv1.DispatchFinished, cost string) usageOf {
	usage := usageOf{prompt: m.GetBillablePromptTokens(), completion: m.GetBillableCompletionTokens()}
	if a.withCost {
		usage.cost = cost
	}
	return usage
}
