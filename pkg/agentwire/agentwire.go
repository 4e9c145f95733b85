// Package agentwire is what both ends of a provider connection in dialect v2 agree
// on besides the messages themselves (proto/svc/agent/v2): sizes, codes, how frames
// are counted, and how credit is spent and granted again. Hub, agent and the fakes
// of both use it, so that a rule is written once.
//
// Package frame has the frames as bytes. This one knows no encoding, so that the
// hub's session can use it and link no protobuf.
//
// Credit is counted in bytes of DATA. Each stream has credit of its own in each
// direction, and the connection has credit for all streams together. A sender
// spends both; a receiver grants both again as the bytes are used.
package agentwire

import "math"

// Subprotocol names the dialect in the WebSocket handshake.
const Subprotocol = "svc.agent.v2"

// Sizes, in bytes.
const (
	// MaxMessage bounds a WebSocket message, which holds one Frame.
	MaxMessage = 64 << 10
	// MaxData bounds the bytes of one DATA.
	MaxData = 16 << 10
	// StreamWindow and ConnWindow are the credit that a stream and a connection
	// begin with, in each direction.
	StreamWindow = 256 << 10
	ConnWindow   = 8 << 20
	// MaxCredit bounds the credit that a sender has been granted and has not spent.
	MaxCredit = math.MaxInt32
)

const (
	// MaxWaiting bounds the control frames that wait for a peer which does not
	// read.
	MaxWaiting = 4096
	// MaxReceipts bounds the receipts in one frame.
	MaxReceipts = 160
)

// Codes of Error frames.
const (
	CodeInvalidKey      = "invalid_api_key"
	CodeKeyRevoked      = "key_revoked"
	CodeSuspended       = "suspended"
	CodeSuperseded      = "superseded"
	CodeProtocolError   = "protocol_error"
	CodeWindowExceeded  = "window_exceeded"
	CodeRegisterTimeout = "register_timeout"
	CodeTooManyModels   = "too_many_models"
	CodeTooManySessions = "too_many_sessions"
	CodeShuttingDown    = "shutting_down"
	CodeTryLater        = "try_later"
)

// Sequence counts the frames of one stream in one direction, from 1.
type Sequence uint32

// Next returns the number of the next frame that is sent.
func (s *Sequence) Next() uint32 {
	*s++
	return uint32(*s)
}

// Follows counts a received frame, and reports whether it has the next number.
func (s *Sequence) Follows(seq uint32) bool {
	*s++
	return uint32(*s) == seq
}

// Credit is the number of bytes that one side may still send.
type Credit int64

// Grant adds to the credit. It reports whether the credit stays within MaxCredit.
func (c *Credit) Grant(bytes uint32) bool {
	*c += Credit(bytes)
	return *c <= MaxCredit
}

// Spend takes the bytes of the next DATA from both credits: at most want, MaxData,
// and what either has left. It returns 0 when a credit is used up.
func Spend(want int, stream, conn *Credit) int {
	n := max(0, min(Credit(want), MaxData, *stream, *conn))
	*stream -= n
	*conn -= n
	return int(n)
}

// Window counts, in bytes, what the other side may still send, and what was used here and
// must be granted again.
type Window struct{ size, left, owed int64 }

// NewWindow returns the window of a new stream or connection.
func NewWindow(size int64) Window { return Window{size: size, left: size} }

// Take counts received bytes. It reports whether the other side had credit for them.
func (w *Window) Take(n int64) bool {
	w.left -= n
	return w.left >= 0
}

// Owe counts bytes that were used, so that their credit can be granted again.
func (w *Window) Owe(n int64) { w.owed += n }

// Grant returns how much credit is due to be granted again, and counts it as
// granted. It is 0 below a quarter of the window, because each grant costs a frame.
func (w *Window) Grant() uint32 {
	if w.owed < w.size/4 {
		return 0
	}
	due := w.owed
	w.left += due
	w.owed = 0
	return uint32(due)
}
