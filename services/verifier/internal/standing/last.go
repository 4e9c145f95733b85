package standing

import (
	"math/bits"

	"svc.internal/services/verifier/internal/calibration"
)

// lastWords is how many words of 64 bits hold calibration.History observations.
const lastWords = (calibration.History + 63) / 64

// Last are the last calibration.History observations of an offer: whether each exceeded.
// The zero value has none.
type Last struct {
	n    int
	bits [lastWords]uint64 // the newest is bit 0 of word 0
}

// observe adds an observation and forgets the oldest.
func (l *Last) observe(exceeded bool) {
	for i := lastWords - 1; i > 0; i-- {
		l.bits[i] = l.bits[i]<<1 | l.bits[i-1]>>63
	}
	l.bits[0] <<= 1
	if exceeded {
		l.bits[0] |= 1
	}
	l.n = min(l.n+1, calibration.History)
	l.bits[lastWords-1] &= lastMask
}

// lastMask are the bits of the last word that are in use.
const lastMask = 1<<(calibration.History-64*(lastWords-1)) - 1

// Exceeded returns how many of the last calibration.History observations exceeded. It
// reports false while there are fewer.
func (l Last) Exceeded() (int, bool) {
	n := 0
	for _, w := range l.bits {
		n += bits.OnesCount64(w)
	}
	return n, l.n == calibration.History
}
