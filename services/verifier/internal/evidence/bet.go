package evidence

import "math"

// bet is what a product is multiplied by when b = 1 and when b = 0.
type bet struct{ exceeded, passed float64 }

const (
	hiddenCount  = 6
	confirmCount = 5
	pairCount    = 3
	ratioCount   = 4
)

var (
	// hiddenBets are the bets of a Process, against q₀ = 1/100.
	hiddenBets = [hiddenCount]bet{
		against(1, 5), against(1, 10), against(1, 20), against(1, 40), against(1, 70), against(1, 95),
	}
	// confirmBets are the bets of a Confirmation, against 5/100.
	confirmBets = [confirmCount]bet{
		against(5, 10), against(5, 20), against(5, 40), against(5, 70), against(5, 95),
	}
	// pairBets are the bets of Pairs: 2q and 2(1−q).
	pairBets = [pairCount]bet{pair(1.2), pair(1.5), pair(1.8)}
	// ratioBets are the bets λ of family R.
	ratioBets = [ratioCount]float64{.05, .2, .6, .95}
)

// against is the bet on a rate of q hundredths against the null of at most null hundredths.
// q/null is an integer for all bets here. The other quotient is taken one unit in the last
// place lower, so that rounding never makes the bet favourable under the null.
func against(null, q int) bet {
	return bet{
		exceeded: float64(q) / float64(null),
		passed:   math.Nextafter(float64(100-q)/float64(100-null), 0),
	}
}

// pair is the bet of Pairs whose multipliers are double and 2 − double. The subtraction of
// float64 is exact, so that the mean of the two is 1 to the bit.
func pair(double float64) bet { return bet{exceeded: double, passed: 2 - double} }

// multiplier returns the factor of an observation.
func (b bet) multiplier(exceeded bool) float64 {
	if exceeded {
		return b.exceeded
	}
	return b.passed
}

// observe moves products by one observation. capital is added before.
func observe(products []float64, bets []bet, exceeded bool, capital float64) {
	for i, b := range bets {
		products[i] = step(products[i], capital, b.multiplier(exceeded))
	}
}

// step returns (m + capital)·e, cut to what states may hold.
func step(m, capital, e float64) float64 {
	next := float64((m + capital) * e)
	switch {
	case next > ceiling:
		return ceiling
	case next < floor:
		return 0
	}
	return next
}

// mean returns the mean of products, summed from the first.
func mean(products []float64) float64 {
	sum := 0.0
	for _, m := range products {
		sum += m
	}
	return sum / float64(len(products))
}
