package auditor

import "math/big"

// rates are the prices pinned to a request, in pico-USD per token.
type rates struct{ input, output, payoutInput, payoutOutput int64 }

// tokens of a prompt and of its completion.
type tokens struct{ prompt, completion int64 }

// picoPerNano is how many pico-USD are one nano-USD, in which money is kept.
const picoPerNano = 1000

// listPrice is what the tokens cost, in nano-USD: the exact sum, rounded once,
// half to even. It is false when that is no int64.
func (r rates) listPrice(t tokens) (int64, bool) {
	quotient, rest := new(big.Int).QuoRem(weigh(t, r.input, r.output), big.NewInt(picoPerNano), new(big.Int))
	if twice := 2 * rest.Int64(); twice > picoPerNano || twice == picoPerNano && quotient.Bit(0) == 1 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Int64(), quotient.IsInt64()
}

// payout is what a provider earns with the tokens, in nano-USD: the exact sum,
// rounded down. It is false when that is no int64.
func (r rates) payout(t tokens) (int64, bool) {
	quotient := new(big.Int).Quo(weigh(t, r.payoutInput, r.payoutOutput), big.NewInt(picoPerNano))
	return quotient.Int64(), quotient.IsInt64()
}

// weigh is the exact price of tokens in pico-USD.
func weigh(t tokens, input, output int64) *big.Int {
	sum := new(big.Int).Mul(big.NewInt(t.prompt), big.NewInt(input))
	return sum.Add(sum, new(big.Int).Mul(big.NewInt(t.completion), big.NewInt(output)))
}
