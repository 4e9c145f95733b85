package session

import (
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/provider-hub/internal/quota"
)

// Config bounds sessions in time and size. Package gate fills in the defaults.
type Config struct {
	// RegisterTimeout is how long a socket may stay unregistered: 10 s.
	RegisterTimeout time.Duration
	// RefuseHold is how long a refused socket of v2 is held before it is closed,
	// so that an agent that dials at once does not spin: 2 s.
	RefuseHold time.Duration
	// HeartbeatInterval is what agents of v2 are told: 10 s.
	HeartbeatInterval time.Duration
	// CancelGrace is how long a stream that nobody wants any more may take to
	// end before its slot is freed: 10 s.
	CancelGrace time.Duration
	// StreamWindow and ConnWindow are the credit of v2 in bytes: 256 KiB and
	// 8 MiB. ConnWindow also bounds what the streams of a v1 session hold.
	StreamWindow int64
	ConnWindow   int64
}

// Limits are what differs between dialects and is no form.
type Limits struct {
	// Name is that of the dialect.
	Name string
	// Strict reports that frames are numbered, that answers have credit, and that
	// whatever does not belong ends the connection. Without it, messages name the
	// request that they answer, nothing can be cancelled, and answers to nobody are
	// passed over within bounds.
	Strict bool
	// Streams bounds the requests at once, and Capacity is what routers know of
	// that bound; 0 for nothing.
	Streams, Capacity int
	// Silence is how long an agent may be without a heartbeat.
	Silence time.Duration
	// Total bounds a whole answer; 0 for no bound.
	Total time.Duration
	// WarmsUp reports that every agent takes warm-ups, declared or not.
	WarmsUp bool
	// Fits refuses, with ErrTooLarge or ErrNotSendable, a request that no message
	// can carry. It is called without a lock. Nil means that every request fits.
	Fits func(*Request) error
}

// Env is what the sessions of a hub share.
type Env struct {
	Config    Config
	Registrar Registrar
	// Receipts takes work receipts; nil passes them over.
	Receipts Receipts
	Clock    clock.Clock
	Counts   *Counts
	// Held bounds what the streams of all sessions hold that was not taken.
	Held *quota.Budget
}
