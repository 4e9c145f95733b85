package session

import "sync/atomic"

// Counts are the figures of all sessions of a hub, for its metrics.
type Counts struct {
	// Slots are taken now.
	Slots atomic.Int64
	// FramesOut counts messages to agents, BytesIn the bytes of answers.
	FramesOut, BytesIn atomic.Int64
	// Held is what the streams of all sessions hold that was not taken, in bytes.
	Held atomic.Int64
	// Strays are answers to requests of earlier connections that were passed over.
	Strays atomic.Int64
	// ReceiptsDropped came faster than receipts are taken.
	ReceiptsDropped atomic.Int64
}
