package dispatch

import (
	"bytes"

	"svc.internal/pkg/openai"
	"svc.internal/services/provider-hub/internal/meter"
)

const (
	// maxHeld bounds the events that wait for the first content, in bytes. Each event
	// counts heldOverhead more.
	maxHeld      = 64 << 10
	heldOverhead = 64
	// maxKept is the largest buffer of an event that is used again, in bytes.
	maxKept = 256 << 10
	// maxRaw bounds the bytes that are kept of a stream without an event, because they
	// may be an error body.
	maxRaw = 16 << 10
	// maxImageEvent bounds an event that may hold an image, in bytes.
	maxImageEvent = 24 << 20
)

// answer is what is known of an engine's answer so far.
type answer struct {
	sse    openai.SSEReader
	reader reader
	names  modelNames
	heard  bool // an event could be read
	begun  bool // content was relayed
	done   bool // the stream's own end was seen

	piece []byte // what the SSE reader may still look at
	out   []byte // the event rewritten last
	spare []byte // the event rewritten before out
	raw   []byte
	held  []pendingEvent // before the first content
	holds int            // their bytes
	whole []byte
}

func newAnswer(o *Order, declared string) *answer {
	n := &answer{reader: newReader(o), names: modelNames{catalog: o.Model, asked: o.asked, declared: declared}}
	if o.Kind == meter.Images {
		n.sse.MaxEvent = maxImageEvent
	}
	return n
}

// feed gives a piece to the SSE reader.
func (n *answer) feed(piece []byte) {
	if n.heard {
		n.raw = nil
	} else {
		n.raw = append(n.raw, piece[:min(len(piece), maxRaw-len(n.raw))]...)
	}
	n.sse.Feed(piece)
}

// keep notes that the SSE reader may look at piece until the next call. It returns the
// piece before, which is free.
func (n *answer) keep(piece []byte) (free []byte) {
	if len(piece) == 0 {
		return piece
	}
	free, n.piece = n.piece, piece
	return free
}

// gather adds a piece to a whole answer, and reports whether the answer stays within
// limit. It takes the first piece over without a copy, because that piece may be the
// whole answer. free is the piece where it was copied.
func (n *answer) gather(piece []byte, limit int) (free []byte, ok bool) {
	switch {
	case len(n.whole)+len(piece) > limit:
		return piece, false
	case len(n.whole) == 0 && len(piece) > 0:
		n.whole = piece
		return nil, true
	default:
		n.whole = append(n.whole, piece...)
		return piece, true
	}
}

// rewritten is the last event as the caller sees it. It is valid until the next call but
// one.
func (n *answer) rewritten(json []byte) []byte {
	n.names.look(json, n.reader.named())
	if len(json) > maxKept {
		return n.reader.restored(make([]byte, 0, len(json)+maxIDText), json)
	}
	n.out, n.spare = n.reader.restored(n.spare[:0], json), n.out
	return n.out
}

// restored is the whole answer as the caller sees it.
func (n *answer) restored() []byte {
	n.names.look(n.whole, n.reader.named())
	if n.reader.untouched() {
		return n.whole
	}
	return n.reader.restored(make([]byte, 0, len(n.whole)+maxIDText), n.whole)
}

// pendingEvent is an event that waits for the first content.
type pendingEvent struct {
	json []byte
	name string
}

// hold keeps an event until there is content. It reports whether there is room.
func (n *answer) hold(event []byte, name string) bool {
	if n.holds += len(event) + heldOverhead; n.holds > maxHeld {
		return false
	}
	n.held = append(n.held, pendingEvent{json: bytes.Clone(event), name: name})
	return true
}

// unhold returns the events that waited for content, once.
func (n *answer) unhold() []pendingEvent {
	held := n.held
	n.held = nil
	return held
}

// body is the engine's error body, if the answer is one.
func (n *answer) body() []byte {
	if n.whole != nil {
		return n.whole
	}
	return n.raw
}
