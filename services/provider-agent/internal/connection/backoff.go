package connection

import (
	"encoding/binary"
	"io"
	"time"

	"svc.internal/pkg/agentwire"
)

const (
	backoffFirst = 250 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// stable is how long a session must have been registered for the next failure to
	// count as the first.
	stable = time.Minute
	// refusedWait is the least pause before a refused key is tried again, and
	// supersededWait the first pause before a node that was replaced comes back.
	refusedWait    = time.Minute
	supersededWait = time.Minute
	maxSuperseded  = 16 * time.Minute
	// maxHubPause bounds the pause that a hub may ask for.
	maxHubPause = 10 * time.Minute
)

// ending says why a session ended.
type ending struct {
	// code is the code of the hub's or our Error; empty when the connection was lost,
	// could not be made, or was closed on purpose.
	code string
	text string
	// ours reports that the agent sent the Error.
	ours bool
	// after is the pause that the hub asks for; 0 leaves it to the agent.
	after time.Duration
	// lived is how long the session was registered.
	lived time.Duration
}

// reason is for the log.
func (e ending) reason() string {
	switch {
	case e.code == "":
		return e.text
	case e.text == "":
		return e.code
	default:
		return e.code + ": " + e.text
	}
}

func protocolError(text string) *ending {
	return &ending{code: agentwire.CodeProtocolError, text: text, ours: true}
}

func windowExceeded(text string) *ending {
	return &ending{code: agentwire.CodeWindowExceeded, text: text, ours: true}
}

// backoff decides how long to wait after a session. It is for one goroutine.
type backoff struct {
	random     io.Reader
	failures   int
	superseded int
}

// after returns the pause.
func (b *backoff) after(e ending) time.Duration {
	if e.lived >= stable {
		b.failures = 0
	}
	told := min(e.after, maxHubPause)
	switch e.code {
	case agentwire.CodeInvalidKey, agentwire.CodeKeyRevoked, agentwire.CodeSuspended:
		return max(told, refusedWait) + b.jitter(refusedWait/4)
	case agentwire.CodeSuperseded:
		wait := min(supersededWait<<min(b.superseded, 10), maxSuperseded)
		b.superseded++
		return max(told, wait) + b.jitter(wait/4)
	}
	if told > 0 {
		// Other agents were given the same time.
		return told + b.jitter(told/4)
	}
	ceiling := min(backoffFirst<<min(b.failures, 10), maxBackoff)
	b.failures++
	return b.jitter(ceiling)
}

// beside returns the pause before another connection is made beside a connection whose
// hub drains: the hub's time, and up to a tenth more at random, so that agents with the
// same time do not come together. The pause is at least the pause that after returns for
// a connection of the same length.
func (b *backoff) beside(e ending) time.Duration {
	told := min(e.after, maxHubPause)
	least := b.after(ending{lived: e.lived})
	return max(told+b.jitter(told/10), least)
}

// jitter is a random time from 0 up to longest. Without randomness it is longest.
func (b *backoff) jitter(longest time.Duration) time.Duration {
	var raw [8]byte
	if _, err := io.ReadFull(b.random, raw[:]); err != nil {
		return longest
	}
	fraction := float64(binary.LittleEndian.Uint64(raw[:])>>11) / (1 << 53)
	return time.Duration(fraction * float64(longest))
}
