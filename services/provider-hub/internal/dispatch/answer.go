package dispatch

import (
	"svc.internal/pkg/openai"
)

const (
	// maxHeld bounds what waits for the first content.
	maxHeld = 64 << 10
	// maxRaw is how much is kept of a stream that has no event yet, in case
	// it is an error body.
	maxRaw = 16 << 10
)

// answer is what is known of an engine's answer so far.
type answer struct {
	sse     openai.SSEReader
	tally   openai.Tally
	rewrite openai.Rewrite
	begun   bool // content was relayed
	done    bool // [DONE] was seen

	piece []byte // what the SSE reader may still look at
	out   []byte // the event rewritten last
	spare []byte // the one before it
	raw   []byte
	held  []byte // events before the first content, one behind the other
	cuts  []int  // where each of them ends
	whole []byte
}

func newAnswer(o *Order) *answer {
	return &answer{rewrite: openai.NewRewrite(o.Model, o.Stream && !o.IncludeUsage)}
}

// feed gives a piece to the SSE reader.
func (n *answer) feed(piece []byte) {
	if n.tally.Chunks > 0 {
		n.raw = nil
	} else {
		n.raw = append(n.raw, piece[:min(len(piece), maxRaw-len(n.raw))]...)
	}
	n.sse.Feed(piece)
}

// keep notes that the SSE reader may look at piece until the next one, and
// returns the one before, which nobody looks at any more.
func (n *answer) keep(piece []byte) (free []byte) {
	if len(piece) == 0 {
		return piece
	}
	free, n.piece = n.piece, piece
	return free
}

// gather adds a piece to a whole answer; false when it grows beyond limit.
func (n *answer) gather(piece []byte, limit int) bool {
	if len(n.whole)+len(piece) > limit {
		return false
	}
	n.whole = append(n.whole, piece...)
	return true
}

// rewritten is json as the caller sees it, until the next call but one.
func (n *answer) rewritten(json []byte, chunk *openai.Chunk) []byte {
	n.out, n.spare = n.rewrite.Append(n.spare[:0], json, chunk), n.out
	return n.out
}

// hold keeps an event until there is content; false when too much waits.
func (n *answer) hold(event []byte) bool {
	if len(n.held)+len(event) > maxHeld {
		return false
	}
	n.held = append(n.held, event...)
	n.cuts = append(n.cuts, len(n.held))
	return true
}

// unhold returns what waited, once.
func (n *answer) unhold() [][]byte {
	events := make([][]byte, 0, len(n.cuts))
	from := 0
	for _, to := range n.cuts {
		events = append(events, n.held[from:to])
		from = to
	}
	n.held, n.cuts = nil, nil
	return events
}

// body is the engine's error body, if the answer is one.
func (n *answer) body() []byte {
	if n.whole != nil {
		return n.whole
	}
	return n.raw
}
