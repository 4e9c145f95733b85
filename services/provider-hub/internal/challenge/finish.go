package challenge

import "time"

// End is how a challenge ended.
type End uint8

// The ends.
const (
	// Answered has the whole answer.
	Answered End = iota + 1
	// Refused means that the agent or its engine said that it cannot.
	Refused
	// TimedOut means that no whole answer came in time.
	TimedOut
	// Lost means that the connection was lost.
	Lost
	// Invalid means that the answer broke the protocol or a bound, or was not whole.
	Invalid
	// HubStopped means that the hub stops.
	HubStopped
)

// Ends returns every end.
func Ends() []End { return []End{Answered, Refused, TimedOut, Lost, Invalid, HubStopped} }

// String is the name of the end, in metrics.
func (e End) String() string {
	switch e {
	case Answered:
		return "answered"
	case Refused:
		return "refused"
	case TimedOut:
		return "timed_out"
	case Lost:
		return "lost"
	case Invalid:
		return "invalid"
	case HubStopped:
		return "hub_stopped"
	}
	return "unknown"
}

// Finish is the end of a challenge.
type Finish struct {
	End End
	// Status is the engine's HTTP status; 0 where there is none.
	Status int
	// Error says why, in at most 1 KiB.
	Error string
	// SentAt is when the challenge began to be written; zero where it was not. Written is
	// how long after that its last byte was written; 0 where it was not. Took is how long
	// after SentAt the challenge ended.
	SentAt  time.Time
	Written time.Duration
	Took    time.Duration
	// Dialect is v1 or v2. RoundTrip is the shortest of the connection, at most
	// MaxRoundTrip; 0 where none was measured.
	Dialect   string
	RoundTrip time.Duration
}

// Caller takes the answer.
type Caller interface {
	// Chunk takes a piece of the answer, the last byte of which was read so long after the
	// challenge began to be written. The bytes are used again when Chunk has returned.
	Chunk(data []byte, after time.Duration) error
}
