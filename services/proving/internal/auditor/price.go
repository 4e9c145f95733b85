package auditor

import "math/big"

// rates are the prices pinned to a request, in pico-USD per unit.
type rates struct {
	unit                                     int64
	input, output, payoutInput, payoutOutput int64
}

// The units of prices.
const (
	unitToken  = 0
	unitImage  = 1
	unitMinute = 2
)

// tokens are the counts of a prompt and of its completion. In units other than the token,
// images are the completion and milliseconds of audio the prompt.
type tokens struct{ prompt, completion int64 }

// picoPerNano is how many pico-USD are one nano-USD, in which money is kept. msPerMinute
// is how many milliseconds of audio have one price.
const (
	picoPerNano = 1000
	msPerMinute = 60_000
)

// divisor divides a count times a price to give nano-USD.
func (r rates) divisor() *big.Int {
	if r.unit == unitMinute {
		return big.NewInt(picoPerNano * msPerMinute)
	}
	return big.NewInt(picoPerNano)
}

// counts reports whether the counts are possible in the unit.
func (r rates) counts(t tokens) bool {
	switch r.unit {
	case unitToken:
		return true
	case unitImage:
		return t.prompt == 0
	case unitMinute:
		return t.completion == 0
	}
	return false
}

// listPrice is the price of the tokens in nano-USD: the exact sum, rounded once, half to
// even. It is false for a price beyond int64.
func (r rates) listPrice(t tokens) (int64, bool) {
	quotient, rest := new(big.Int).QuoRem(weigh(t, r.input, r.output), r.divisor(), new(big.Int))
	if half := rest.Lsh(rest, 1).Cmp(r.divisor()); half > 0 || half == 0 && quotient.Bit(0) == 1 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Int64(), quotient.IsInt64()
}

// payout is what a provider earns with the tokens in nano-USD: the exact sum, rounded
// down. It is false for an amount beyond int64.
func (r rates) payout(t tokens) (int64, bool) {
	quotient := new(big.Int).Quo(weigh(t, r.payoutInput, r.payoutOutput), r.divisor())
	return quotient.Int64(), quotient.IsInt64()
}

// weigh is the exact sum of counts times prices.
func weigh(t tokens, input, output int64) *big.Int {
	sum := new(big.Int).Mul(big.NewInt(t.prompt), big.NewInt(input))
	return sum.Add(sum, new(big.Int).Mul(big.NewInt(t.completion), big.NewInt(output)))
}
