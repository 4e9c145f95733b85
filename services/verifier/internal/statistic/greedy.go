package statistic

import "svc.internal/services/verifier/internal/exact"

// The rules of screening.
const (
	// MinTokens is the length below which an answer proves nothing.
	MinTokens = 24
	// minInformativePercent is the share of informative positions below which an answer
	// proves nothing.
	minInformativePercent = 15
)

// Informative returns how many positions leave a choice: the first two log-probabilities
// lie within 2 nats.
func Informative(positions []Position) int {
	n := 0
	for _, p := range positions {
		if len(p.Top) >= 2 && p.Top[0].Logprob-p.Top[1].Logprob <= cap2 {
			n++
		}
	}
	return n
}

// Screen returns None for an answer that can speak for or against a provider: at least
// MinTokens tokens, 15% of them informative. The positions are a reference's.
func Screen(positions []Position) Void {
	if v := check(positions); v != None {
		return ofReference(v)
	}
	switch n := len(positions); {
	case n < MinTokens:
		return TooShort
	case Informative(positions)*100 < n*minInformativePercent:
		return NotInformative
	}
	return None
}

// Greedy is the statistic of family B, of an answer at temperature 0: how far the
// answer's tokens lie behind the reference's best tokens, in nats, the mean of
// min(2, max ℓ_t − ℓ_t(a_t)). An honest host differs from the reference only where the
// first two are close.
func Greedy(positions []Position) (Parts, Void) {
	if v := Screen(positions); v != None {
		return nil, v
	}
	var sum exact.Logprob
	for _, p := range positions {
		sum += min(cap2, p.best()-p.Own.Logprob)
	}
	return Parts{sum.Nats() / float64(len(positions))}, None
}
