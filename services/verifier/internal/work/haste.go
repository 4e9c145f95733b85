package work

import "time"

// shortest bounds every pause from below, however great the haste.
const shortest = 20 * time.Millisecond

// Haste divides the pauses between two looks of a loop, for tests that move the database's
// clock: then hours of probes pass within seconds. What is due, and when, follows from that
// clock alone, so haste changes nothing of it. Zero and one are none.
type Haste int

// Of returns the pause of a loop whose own pause is given.
func (h Haste) Of(own time.Duration) time.Duration {
	if h <= 1 {
		return own
	}
	return min(own, max(own/time.Duration(h), shortest))
}
