package session

// The frames other than DATA that an agent may send. Each OPEN earns as many as an answer
// needs that asks for nothing more. Every earnedByBytes of a body earn one more, because
// agents grant credit in larger steps. All other frames count with heartbeats and pings.
// At most maxEarned are kept, which is more than the answers that a session may have open
// need.
const (
	earnedByOpen  = 4
	earnedByBytes = 8 << 10
	maxEarned     = 32_768
)

// earned counts the frames other than DATA that an agent may send for what it was sent.
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

// spend takes a frame off what was earned, and reports whether there was one.
func (e *earned) spend() bool {
	if e.frames == 0 {
		return false
	}
	e.frames--
	return true
}
