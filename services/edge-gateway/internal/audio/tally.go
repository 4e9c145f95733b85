package audio

import "time"

const (
	// tooLong stands for every time beyond the longest.
	tooLong = uint64(MaxDuration) + 1
	// maxRate bounds the samples or ticks in a second.
	maxRate = 1<<32 - 1
	// maxUnits is more than MaxDuration has at any rate, and so little that two of it can
	// be added.
	maxUnits = 1 << 50
)

// tally adds up samples. It keeps them as samples while the rate stays the same, so that
// nothing is lost to rounding.
type tally struct{ nanos, units, rate uint64 }

// add counts units at a rate a second.
func (t *tally) add(units, rate uint64) {
	if units == 0 || rate == 0 {
		return
	}
	if rate != t.rate {
		t.nanos, t.units, t.rate = t.total(), 0, rate
	}
	t.units = min(t.units+min(units, maxUnits), maxUnits)
}

// total returns the sum in nanoseconds, tooLong at most.
func (t *tally) total() uint64 { return min(t.nanos+nanosOf(t.units, t.rate), tooLong) }

// nanosOf returns the time of so many units in nanoseconds, rounded up, tooLong at most.
func nanosOf(units, rate uint64) uint64 {
	if rate == 0 || units == 0 {
		return 0
	}
	rate = min(rate, maxRate)
	seconds := units / rate
	if seconds > uint64(MaxDuration/time.Second) {
		return tooLong
	}
	const second = uint64(time.Second)
	return min(seconds*second+(units%rate*second+rate-1)/rate, tooLong)
}

// mul multiplies, maxUnits at most.
func mul(a, b uint64) uint64 {
	if a != 0 && b > maxUnits/a {
		return maxUnits
	}
	return min(a*b, maxUnits)
}
