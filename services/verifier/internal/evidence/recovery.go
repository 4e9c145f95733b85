package evidence

import "svc.internal/services/verifier/internal/evidence/form"

const (
	// RecoveryThreshold is the ratio from which a provider has recovered.
	RecoveryThreshold = 20
	// recoveryExceeded is .01/.05 and recoveryPassed .99/.95.
	recoveryExceeded = .2
	recoveryPassed   = .99 / .95
	// recoveryFloor is 2⁻¹⁰⁰. Without it a long cheat would drive the ratio to 0, from
	// where no honesty leads back.
	recoveryFloor = 1.0 / (1 << 100)
)

// Recovery is the way back from a notice: the likelihood ratio of a rate of exceedance of
// .01 against one of .05, R ← R·(.2 if b, else .99/.95) from 1. Under a rate of .05 or
// more R is an e-process, so that a provider that still cheats so often recovers with a
// chance of at most 1/20. 73 clean observations in a row are enough.
//
// The hidden families B, R, C, D and U move it. Visible observations do not, because
// cheats pass them. NewRecovery makes a Recovery; the zero value has no binary form that
// can be read.
type Recovery struct{ ratio float64 }

// NewRecovery returns the recovery that begins with a notice.
func NewRecovery() Recovery { return Recovery{ratio: 1} }

// Observe moves the recovery by one observation.
func (r *Recovery) Observe(o Observation) {
	if !o.family.recovers() {
		return
	}
	factor := recoveryPassed
	if o.exceeded {
		factor = recoveryExceeded
	}
	r.ratio = max(recoveryFloor, step(r.ratio, 0, factor))
}

// Ratio returns R.
func (r *Recovery) Ratio() float64 { return r.ratio }

// Recovered reports whether R is at least RecoveryThreshold.
func (r *Recovery) Recovered() bool { return r.ratio >= RecoveryThreshold }

const recoveryVersion = 1

// MarshalBinary returns the canonical form of the state. The error is always nil.
func (r *Recovery) MarshalBinary() ([]byte, error) {
	return form.AppendFloats(form.Start(form.Recovery, recoveryVersion, 8), r.ratio), nil
}

// UnmarshalBinary reads a form that MarshalBinary wrote. Its errors are form.ErrForm, and
// leave the state as it was.
func (r *Recovery) UnmarshalBinary(b []byte) error {
	read := form.Read(b, form.Recovery, recoveryVersion)
	ratio := read.Float(recoveryFloor, ceiling)
	if err := read.End(); err != nil {
		return err
	}
	r.ratio = ratio
	return nil
}
