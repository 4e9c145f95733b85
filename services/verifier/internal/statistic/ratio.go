package statistic

import (
	"math"

	"svc.internal/services/verifier/internal/exact"
)

// MaxRatio is where a likelihood ratio stops counting.
const MaxRatio = 20.0

// Temperature is what an alternative of family R samples at instead of 1.
type Temperature float64

// The temperatures that are tried.
const (
	Cool Temperature = 0.7
	Hot  Temperature = 1.4
)

// RatioAgainst is the likelihood ratio of family R, of an answer sampled at temperature
// 1: min(20, Π g_t(a_t) ÷ ℓ_t(a_t)), where g is another model (a cheaper class, a smaller
// sibling), which scored the same tokens. Were the answer sampled from ℓ, its expectation
// would be 1 at most (Wald's likelihood ratio; clipping lowers it). The calibrated mean
// of honest hosts is what the evidence divides it by.
func RatioAgainst(reference, alternative []Position) (float64, Void) {
	if v := Screen(reference); v != None {
		return 0, v
	}
	if v := check(alternative); v != None {
		return 0, ofReference(v)
	}
	if len(reference) != len(alternative) {
		return 0, NoReference
	}
	var sum exact.Logprob
	for t, p := range reference {
		if alternative[t].Own.Token != p.Own.Token {
			return 0, NoReference
		}
		sum += alternative[t].Own.Logprob - p.Own.Logprob
	}
	return clip(sum.Nats()), None
}

// RatioAtTemperature is the likelihood ratio against the reference itself at another
// temperature. The distributions are those of the first MaxTop tokens and of *rest*, all
// other tokens together, because only these are known.
func RatioAtTemperature(reference []Position, t Temperature) (float64, Void) {
	if v := Screen(reference); v != None {
		return 0, v
	}
	if t != Cool && t != Hot {
		return 0, NoReference
	}
	sum := 0.0
	for _, p := range reference {
		sum += tempered(p, float64(t))
	}
	return clip(sum), None
}

// clip returns min(20, e^x).
func clip(x float64) float64 { return min(MaxRatio, exact.Exp(x)) }

// minRest keeps the logarithm of *rest* finite where rounding leaves nothing.
const minRest = 1e-12

// tempered returns ln g(a) − ln ℓ(a) of a position: g is ℓ to the power 1/t, normed. The
// token is in Top, or in the rest.
func tempered(p Position, t float64) float64 {
	own := rankOf(p)
	rest := max(1-p.mass(), minRest)
	if own < 0 {
		rest = max(rest, p.Own.Logprob.P())
	}
	logRest := float64(exact.Log2(rest) * math.Ln2)
	norm := exact.Exp(logRest / t)
	total := rest
	for _, e := range p.Top {
		norm += exact.Exp(e.Logprob.Nats() / t)
		total += e.Logprob.P()
	}
	l := logRest
	if own >= 0 {
		l = p.Top[own].Logprob.Nats()
	}
	// ln g = l/t − ln norm, ln ℓ = l − ln total.
	return float64(l/t) - l - float64((exact.Log2(norm)-exact.Log2(total))*math.Ln2)
}

// rankOf returns where the position's token is in Top, or −1. Tokens that are parts of a
// character share one text; the logarithm distinguishes them.
func rankOf(p Position) int {
	for i, e := range p.Top {
		if e == p.Own {
			return i
		}
	}
	return -1
}
