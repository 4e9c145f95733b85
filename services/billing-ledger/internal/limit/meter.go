package limit

import "time"

// Meter is one rate at one moment: how many requests a minute it allows, and how far ahead the
// moment is at which all of them may begin at once. A request moves that moment on by
// minute/PerMinute, rounded up to a microsecond, so that in the long run no minute gives back
// more than its limit. The store computes the same (admit_requests.sql).
type Meter struct {
	// PerMinute is at least 1, or Unlimited.
	PerMinute int32
	Ahead     time.Duration
}

// Limited reports whether the rate bounds anything.
func (m Meter) Limited() bool { return m.PerMinute != Unlimited }

// every is what one request moves the rate on by.
func (m Meter) every() time.Duration {
	return ceil(time.Minute, time.Duration(max(m.PerMinute, 1)), time.Microsecond)
}

// ceil returns d/n, rounded up to whole units.
func ceil(d, n, unit time.Duration) time.Duration {
	return (d/unit + n - 1) / n * unit
}

// Room returns how many requests may begin at once. It is below zero where the limit was lowered
// since. It is not defined for a rate without limit.
func (m Meter) Room() int64 {
	every := m.every()
	return int64(m.PerMinute) - int64((m.Ahead+every-1)/every)
}

// Tighter reports whether m leaves less room than other.
func (m Meter) Tighter(other Meter) bool {
	return m.Limited() && (!other.Limited() || m.Room() < other.Room())
}

// Take returns the meter after one more request.
func (m Meter) Take() Meter {
	if m.Limited() {
		m.Ahead += m.every()
	}
	return m
}

// Classes is the number of classes.
const Classes = 6

// ForKey returns the limits of a key by class, LLM first, where the account has a limit of its
// own for each key: 0 for none of its own, Unlimited for none at all. It replaces the limits of
// all categories. Of zero-priced models the stricter one holds.
func (d Defaults) ForKey(own int32) (limits [Classes]int32) {
	copy(limits[:], d.PerMinute())
	if own == 0 {
		return limits
	}
	zero := limits[ZeroPriced-1]
	for i := range limits {
		limits[i] = own
	}
	if own != Unlimited && zero != Unlimited {
		limits[ZeroPriced-1] = min(own, zero)
	}
	return limits
}
