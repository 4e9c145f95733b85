package evidence

import "svc.internal/services/verifier/internal/evidence/form"

const (
	// pairHorizon is the number of discordant pairs for which the capital of Pairs suffices.
	pairHorizon = 2_000
	pairCapital = 1.0 / pairHorizon
)

// Pairs is F: evidence that a provider fails organic requests more often than probes. It
// steers routing and is never part of M, because a failure is no false statement.
//
// A probe is paired with the provider's next organic attempt at the same model. Only a
// pair in which exactly one of the two failed moves the products:
// e = 2q if the organic attempt failed, else 2(1−q), for q ∈ {.6,.75,.9}. For a provider
// that treats both alike the two outcomes of such a pair are equally likely, whatever its
// rate of failures is. E[e] is therefore 1 exactly and no calibration is needed. The
// crossings of c in n discordant pairs have an expectation of at most n/(2,000·c), as in
// a Process.
//
// The zero value is the state without pairs.
type Pairs struct{ products [pairCount]float64 }

// Observe moves the products by one pair.
func (p *Pairs) Observe(probeFailed, organicFailed bool) {
	if probeFailed == organicFailed {
		return
	}
	observe(p.products[:], pairBets[:], organicFailed, pairCapital)
}

// M returns the mean of the products.
func (p *Pairs) M() float64 { return mean(p.products[:]) }

// Reset sets M to 0.
func (p *Pairs) Reset() { *p = Pairs{} }

const pairsVersion = 1

// MarshalBinary returns the canonical form of the state. The error is always nil.
func (p *Pairs) MarshalBinary() ([]byte, error) {
	return form.AppendFloats(form.Start(form.Pairs, pairsVersion, 8*pairCount), p.products[:]...), nil
}

// UnmarshalBinary reads a form that MarshalBinary wrote. Its errors are form.ErrForm, and
// leave the state as it was.
func (p *Pairs) UnmarshalBinary(b []byte) error {
	var read Pairs
	r := form.Read(b, form.Pairs, pairsVersion)
	r.Floats(read.products[:], 0, ceiling)
	if err := r.End(); err != nil {
		return err
	}
	*p = read
	return nil
}
