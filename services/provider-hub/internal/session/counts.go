package session

import "sync/atomic"

// Counts are the figures of all sessions of a hub, for its metrics.
type Counts struct {
	// Slots is how many slots are taken now.
	Slots atomic.Int64
	// FramesOut counts messages to agents, BytesIn the bytes of answers.
	FramesOut, BytesIn atomic.Int64
	// Held is how many bytes the streams of all sessions hold now.
	Held atomic.Int64
	// Strays counts answers to requests of earlier connections that were passed over.
	Strays atomic.Int64
	// ReceiptsDropped counts receipts that came faster than receipts are taken.
	ReceiptsDropped atomic.Int64
}
