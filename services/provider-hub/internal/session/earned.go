package session

// The frames other than DATA that an agent may send. Each OPEN earns as many frames as a
// plain answer needs. Every earnedByBytes of a body earn one more frame, because agents
// grant credit in larger steps. All other frames count with heartbeats and pings. At most
// maxEarned frames are kept, which is more than the open answers of a session need.
const (
	earnedByOpen  = 4
	earnedByBytes = 8 << 10
	maxEarned     = 32_768
)

// earned counts the frames other than DATA that an agent may send in return for requests
// and bodies.
type earned struct {
	frames int
	unpaid int // bytes of bodies that have not earned a frame yet
}

// open notes that a request goes out.
func (e *earned) open() { e.add(earnedByOpen) }

// sent notes that n bytes of a body go out.
func (e *earned) sent(n int) {
	e.unpaid += n
	e.add(e.unpaid / earnedByBytes)
	e.unpaid %= earnedByBytes
}

func (e *earned) add(frames int) { e.frames = min(e.frames+frames, maxEarned) }

// spend takes one earned frame off, and reports whether there was an earned frame.
func (e *earned) spend() bool {
	if e.frames == 0 {
		return false
	}
	e.frames--
	return true
}
