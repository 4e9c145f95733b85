package session

import "sync/atomic"

// Counts are the figures of all sessions of a hub, for its metrics.
type Counts struct {
	// Sockets are open now, registered or not; Slots are taken now.
	Sockets, Slots atomic.Int64
	// FramesIn and FramesOut count frames, BytesIn the bytes of DATA.
	FramesIn, FramesOut, BytesIn atomic.Int64
	// Discarded are large messages that there was no room for.
	Discarded atomic.Int64
	// Held is what the streams of all sessions hold that was not taken, in bytes.
	Held atomic.Int64
	// Strays are answers to requests of earlier connections that were passed over.
	Strays atomic.Int64
	// ReceiptsDropped came faster than receipts are taken.
	ReceiptsDropped atomic.Int64
}

func (c *Counts) slots(n int64) { c.Slots.Add(n) }

func (c *Counts) received(n int64) { c.BytesIn.Add(n) }

func (c *Counts) sent(frames int64) { c.FramesOut.Add(frames) }
