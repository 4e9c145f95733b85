package auditor

import (
	"math/big"
	"math/bits"
)

// wide is a sum of 128 bits, in which no sum of amounts of 64 bits can wrap.
type wide struct {
	hi int64
	lo uint64
}

// wideOf is one amount.
func wideOf(n int64) wide { return wide{}.plus(n) }

// plus adds an amount.
func (w wide) plus(n int64) wide { return w.add(wide{n >> 63, uint64(n)}) }

// add adds another sum.
func (w wide) add(o wide) wide {
	lo, carry := bits.Add64(w.lo, o.lo, 0)
	return wide{w.hi + o.hi + int64(carry), lo}
}

// minus subtracts an amount. The smallest int64 has no opposite in 64 bits, so the wide
// form is negated.
func (w wide) minus(n int64) wide { return w.add(wideOf(n).negated()) }

func (w wide) negated() wide {
	lo, borrow := bits.Sub64(0, w.lo, 0)
	return wide{-w.hi - int64(borrow), lo}
}

// negative reports whether the sum is below zero.
func (w wide) negative() bool { return w.hi < 0 }

// zero reports whether the sum is nothing.
func (w wide) zero() bool { return w == wide{} }

// String is the decimal form.
func (w wide) String() string { return w.big().String() }

// positive reports whether the sum is above zero.
func (w wide) positive() bool { return !w.negative() && !w.zero() }

// less reports whether the sum is below another.
func (w wide) less(o wide) bool { return w.add(o.negated()).negative() }

// big is the sum as a number of any size.
func (w wide) big() *big.Int {
	n := new(big.Int).Lsh(big.NewInt(w.hi), 64)
	return n.Add(n, new(big.Int).SetUint64(w.lo))
}
