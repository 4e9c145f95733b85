// Package trustword has the words by which the public API says how far a provider can be trusted
// with a model. The figure behind them is the verifier's and is shown to nobody.
package trustword

// The words.
const (
	High      = "high"
	Normal    = "normal"
	Probation = "probation"
)

// minHigh is the least trust that is shown as high. The verifier gives it to a provider that
// has passed many verifications of late.
const minHigh = 0.95

// Of returns the word for a trust, which is 0 while the verifier has said nothing. A provider of
// which it has said nothing is normal, as is every provider while no verifier runs.
func Of(probation bool, trust float64) string {
	switch {
	case probation:
		return Probation
	case trust >= minHigh:
		return High
	default:
		return Normal
	}
}
