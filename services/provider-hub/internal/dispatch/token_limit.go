package dispatch

import (
	"strconv"

	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/openai"
	"svc.internal/services/provider-hub/internal/meter"
)

// tooLong reports whether more was read of the answer than its bound allows, for certain.
// The bill ends at the bound, and so does the delivery. A stream is too long when it has
// passed its bound and 16 tokens for each choice (meter.Mark). Certain is the count that
// the vocabulary with the longest tokens makes of the text (pkg/openai, least.go), so no
// honest answer is cut, and no claim of an engine moves the mark.
func (a *attempt) tooLong() bool {
	return a.order.Kind == meter.Chat && a.answer.reader.least() > meter.Mark(a.order.Choices, a.order.MaxOutput)
}

// cut ends a stream that is too long as an engine that keeps to the bound would have:
// every choice that has not ended is finished with a finish_reason of length. The last
// event is not relayed. The engine is asked to stop.
func (a *attempt) cut() *verdict {
	a.excess = true
	if !a.answer.begun {
		// The first event alone is too long, so nothing of it was relayed.
		return a.fails(Failure{Code: CodeUpstream, EngineStatus: 200,
			Message: "the engine's answer is longer than was asked for"}, meter.EngineError)
	}
	if v := a.send(true); v != nil {
		return v
	}
	tokens, bytes := a.relayedTokens, a.relayedBytes
	a.next = Event{JSON: a.answer.finishedByLength(a.order.Choices), Tokens: tokens}
	a.nextBytes = bytes
	return &verdict{ending: meter.Completed, outcome: Served}
}

// finishedByLength is an event that finishes every choice that has not ended.
func (n *answer) finishedByLength(choices int64) []byte {
	done := n.reader.finished()
	event := append([]byte(`{"object":"`+openai.ObjectChunk+`","model":`), jsonscan.AppendString(nil, n.names.catalog)...)
	event = append(event, `,"choices":[`...)
	first := true
	for i := range max(choices, 1) {
		if i < 64 && done&(1<<i) != 0 {
			continue
		}
		if !first {
			event = append(event, ',')
		}
		first = false
		event = append(event, `{"index":`...)
		event = strconv.AppendInt(event, i, 10)
		event = append(event, `,"delta":{},"finish_reason":"`+openai.FinishLength+`"}`...)
	}
	return append(event, "]}"...)
}
