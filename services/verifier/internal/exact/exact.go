// Package exact has the arithmetic of verdicts, which gives the same bits on every
// machine.
//
// IEEE 754 fixes +, −, ×, ÷ and the square root of float64 to the last bit. It does not
// fix exponentials and logarithms, whose last bits differ between processors and between
// versions of a library. Exp and Log2 here are made of the fixed operations alone.
// Every product that is added to something is converted to float64 first, because a
// compiler may otherwise fuse the two (Go specification, floating-point operators).
// Packages that decide verdicts follow the same two rules.
//
// Engines state log-probabilities as decimal fractions, each in its own precision.
// Logprob is such a number rounded to integer micro-nats, once, when it is taken in, so
// that evidence on disk and the statistic are made of the same integers.
package exact

import (
	"errors"
	"math"
	"strconv"
)

// Logprob is a natural logarithm of a probability in micro-nats: at least MinLogprob, at
// most 0.
type Logprob int64

// MinLogprob is what all smaller log-probabilities are taken for: 100 nats, which is a
// probability of 4e-44. Engines write −9999 or −1e9 for what cannot be.
const MinLogprob Logprob = -100_000_000

// Nats is one nat in micro-nats.
const Nats Logprob = 1_000_000

// slack is how far above 0 an engine's rounding may put a logarithm.
const slack = 0.001

// ErrNoLogprob is the error for a number that is no logarithm of a probability.
var ErrNoLogprob = errors.New("not the logarithm of a probability")

// Round rounds a number of nats to micro-nats, half to even. It returns ErrNoLogprob for
// NaN, for infinity above 0, and for what is more than 0.001 above 0.
func Round(nats float64) (Logprob, error) {
	switch {
	case math.IsNaN(nats), nats > slack:
		return 0, ErrNoLogprob
	case nats >= 0:
		return 0, nil
	case nats <= MinLogprob.Nats():
		return MinLogprob, nil
	}
	return Logprob(math.RoundToEven(nats * float64(Nats))), nil
}

// Nats returns the logarithm in nats.
func (l Logprob) Nats() float64 { return float64(l) / float64(Nats) }

// P returns the probability.
func (l Logprob) P() float64 { return Exp(l.Nats()) }

// String writes nats with six digits behind the point.
func (l Logprob) String() string { return strconv.FormatFloat(l.Nats(), 'f', 6, 64) }

const (
	invLn2 = 1.44269504088896338700e+00
	// ln2Hi and ln2Lo add up to ln 2. The last 32 bits of ln2Hi are 0, so that its
	// products with exponents of float64 are without rounding.
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
	// overflow and underflow bound the arguments of Exp that give ordinary numbers.
	overflow  = 709.0
	underflow = -700.0
)

// inverseFactorials are 1/n! for n = 0 … 14.
var inverseFactorials = func() (inv [15]float64) {
	f := 1.0
	for n := range inv {
		if n > 0 {
			f *= float64(n)
		}
		inv[n] = 1 / f
	}
	return inv
}()

// Exp returns e to the power of x, within 2 units in the last place. It returns 0 below
// −700 and +Inf above 709. NaN gives NaN.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > overflow:
		return math.Inf(1)
	case x < underflow:
		return 0
	}
	// x = k·ln 2 + r with |r| ≤ ln 2 / 2, and e^x = 2^k · e^r.
	k := math.RoundToEven(float64(x * invLn2))
	r := float64(x - float64(k*ln2Hi))
	r -= float64(k * ln2Lo)
	sum := inverseFactorials[len(inverseFactorials)-1]
	for n := len(inverseFactorials) - 2; n >= 0; n-- {
		sum = float64(sum*r) + inverseFactorials[n]
	}
	return math.Ldexp(sum, int(k))
}

// Log2 returns the binary logarithm of x, within 2⁻⁵⁰ of its size. It returns −Inf for 0
// and NaN for what is below 0.
func Log2(x float64) float64 {
	switch {
	case math.IsNaN(x), x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case math.IsInf(x, 1):
		return x
	}
	// x = 2^k · f with f in [√½, √2), and ln f = 2·artanh(s), s = (f−1)/(f+1).
	f, k := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f, k = 2*f, k-1
	}
	s := (f - 1) / (f + 1)
	square := float64(s * s)
	sum := 0.0
	for n := 27; n >= 1; n -= 2 {
		sum = float64(sum*square) + 1/float64(n)
	}
	return float64(float64(2*s*sum)*invLn2) + float64(k)
}
