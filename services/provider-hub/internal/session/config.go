package session

import "time"

// Config bounds sessions in time and size. Package gate fills in the defaults.
type Config struct {
	// RegisterTimeout is how long a socket may stay unregistered: 10 s.
	RegisterTimeout time.Duration
	// RefuseHold is how long a refused socket of v2 is held before it is closed,
	// so that an agent that dials at once does not spin: 2 s.
	RefuseHold time.Duration
	// HeartbeatInterval is the interval that agents of v2 are told: 10 s.
	HeartbeatInterval time.Duration
	// CancelGrace is how long a stream that nobody wants any more may take to end
	// before its slot is freed: 10 s. A stream of v1 may take the rest of Limits.Total
	// where that is longer.
	CancelGrace time.Duration
	// StreamWindow and ConnWindow are the credit of a stream and of a connection in
	// v2: 256 KiB and 8 MiB. ConnWindow also bounds the bytes that the streams of a v1
	// session hold.
	StreamWindow int64
	ConnWindow   int64
}

// The messages that agents may send unasked: how many a second, and how many at once.
const (
	// Heartbeats, pings, empty DATA and the like.
	chatterRate  = 10
	chatterBurst = 100
	// Frames of receipts, and receipts. The receipts of an agent that comes back with
	// all 32,768 that it kept are taken within minutes.
	receiptRate   = 20
	receiptBurst  = 100
	receiptsRate  = 200
	receiptsBurst = 4096
)
