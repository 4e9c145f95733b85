package session

import "time"

// Limits are what differs between dialects, apart from the form of messages.
type Limits struct {
	// Name is the name of the dialect.
	Name string
	// Strict reports that frames are numbered, that answers have credit, and that any
	// frame that does not belong ends the connection. Without Strict, messages name the
	// request that they answer, nothing can be cancelled, and answers to nobody are
	// passed over within bounds.
	Strict bool
	// Streams bounds the requests at once. Capacity is the bound that routers are told;
	// 0 where they are told none.
	Streams, Capacity int
	// Silence is how long an agent may go without a heartbeat.
	Silence time.Duration
	// Total bounds a whole answer; 0 for no bound.
	Total time.Duration
	// WarmsUp reports that every agent takes warm-ups, declared or not.
	WarmsUp bool
	// Verifies reports that every agent takes every task, declared or not.
	Verifies bool
	// Fits refuses, with ErrTooLarge or ErrNotSendable, a request that no message
	// can carry. It is called without a lock. Nil means that every request fits.
	Fits func(*Request) error
}
