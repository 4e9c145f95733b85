package money

import "math/bits"

// Discount is a part of a list price, in hundredths of a percent.
type Discount int16

// Of returns what the discount takes off a list price, rounded down, so that what is charged is
// rounded up.
func (d Discount) Of(list NanoUSD) NanoUSD {
	const whole = 10_000
	if d <= 0 || list <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(list), uint64(d))
	off, _ := bits.Div64(hi, lo, whole)
	return NanoUSD(off)
}
