package standing

import (
	"time"
)

// move is a state that an event moves, and what comes of it.
type move struct {
	State
	at    time.Time
	world World
	out   Outcome
}
