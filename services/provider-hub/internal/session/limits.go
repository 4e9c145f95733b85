package session

import "time"

// Limits are what differs between dialects, apart from the form of messages.
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
