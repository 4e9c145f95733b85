package evidence

import "svc.internal/services/verifier/internal/evidence/form"

const (
	// RecoveryThreshold is the ratio from which a family has recovered.
	RecoveryThreshold = 20
	// recoveryExceeded is .01/.05 and recoveryPassed .99/.95.
	recoveryExceeded = .2
	recoveryPassed   = .99 / .95
	// recoveryFloor is 2⁻¹⁰⁰. Without it a long cheat would drive a ratio to 0, from
	// where no honesty leads back.
	recoveryFloor = 1.0 / (1 << 100)
)

// Recovery is the way back from a notice. Each hidden family (B, R, C, D and U) has a
// likelihood ratio of a rate of exceedance of .01 against one of .05:
// R_f ← R_f·(.2 if b, else .99/.95) from 1. Under a rate of .05 or more R_f is an e-process,
// so that a family that still exceeds so often reaches 20 with a chance of at most 1/20. 73
// clean observations in a row are enough.
//
// A family counts if it led when notice was given or has exceeded since. The provider has
// recovered when the ratio of every family that counts is at least 20. One ratio for all
// families would let the clean ones hide a cheat: a tenth rerouted shows in every tenth
// observation of B and in no other family, which is one of thirty where B, D and U are
// observed together. Where no family counts, as after a notice that bytes of files led to,
// every family that was observed counts, and at least one must have been.
//
// Visible observations move nothing, because cheats pass them. NewRecovery makes a
// Recovery; the zero value has no binary form that can be read.
type Recovery struct {
	led             Family
	moved, exceeded hiddenFamilies
	ratios          [hiddenProcesses + 1]float64 // by family
}

// hiddenProcesses is the number of hidden families, which are the first ones.
const hiddenProcesses = int(Usage)

// hiddenFamilies is a set of hidden families, one bit each.
type hiddenFamilies uint16

// allHidden is the set of all hidden families.
const allHidden hiddenFamilies = 1<<(hiddenProcesses+1) - 2

// has reports whether the set has f.
func (s hiddenFamilies) has(f Family) bool { return f.recovers() && s>>f&1 == 1 }

// NewRecovery returns the recovery that begins with a notice. led is the family that led
// then (Process.Leading), NoFamily if none did.
func NewRecovery(led Family) Recovery {
	r := Recovery{led: led}
	for f := Greedy; f <= Usage; f++ {
		r.ratios[f] = 1
	}
	return r
}

// Observe moves the recovery by the observations of one probe. It refuses a repeated family
// with ErrFamily, and moves nothing then.
func (r *Recovery) Observe(probe ...Observation) error {
	if err := whole(probe); err != nil {
		return err
	}
	for _, o := range probe {
		if !o.family.recovers() {
			continue
		}
		r.moved |= 1 << o.family
		factor := recoveryPassed
		if o.exceeded {
			r.exceeded |= 1 << o.family
			factor = recoveryExceeded
		}
		r.ratios[o.family] = max(recoveryFloor, step(r.ratios[o.family], 0, factor))
	}
	return nil
}

// Ratio returns R_f of a hidden family, and 0 for another family.
func (r *Recovery) Ratio(f Family) float64 {
	if !f.recovers() {
		return 0
	}
	return r.ratios[f]
}

// Recovered reports whether every family that counts has a ratio of at least
// RecoveryThreshold.
func (r *Recovery) Recovered() bool {
	counting := r.exceeded
	if r.led.recovers() {
		counting |= 1 << r.led
	}
	if counting == 0 {
		counting = r.moved
	}
	for f := Greedy; f <= Usage; f++ {
		if counting.has(f) && r.ratios[f] < RecoveryThreshold {
			return false
		}
	}
	return counting != 0
}

const recoveryVersion = 2

// MarshalBinary returns the canonical form of the state. The error is always nil.
func (r *Recovery) MarshalBinary() ([]byte, error) {
	b := form.Start(form.Recovery, recoveryVersion, 3*2+8*hiddenProcesses)
	b = form.AppendUint16(b, uint16(r.led))
	b = form.AppendUint16(b, uint16(r.moved))
	b = form.AppendUint16(b, uint16(r.exceeded))
	return form.AppendFloats(b, r.ratios[Greedy:]...), nil
}

// UnmarshalBinary reads a form that MarshalBinary wrote. Its errors are form.ErrForm, and
// leave the state as it was.
func (r *Recovery) UnmarshalBinary(b []byte) error {
	var read Recovery
	in := form.Read(b, form.Recovery, recoveryVersion)
	read.led = Family(in.Uint16(uint16(Battery)))
	read.moved = hiddenFamilies(in.Uint16(uint16(allHidden)))
	read.exceeded = hiddenFamilies(in.Uint16(uint16(allHidden)))
	in.Floats(read.ratios[Greedy:], recoveryFloor, ceiling)
	if err := in.End(); err != nil {
		return err
	}
	if read.contradicts() {
		in.Refuse("a family whose ratio does not follow from what was observed")
		return in.End()
	}
	*r = read
	return nil
}

// contradicts reports whether the fields cannot be together: a family that was not observed
// has a ratio of 1, and one that was observed without an exceedance has a larger one.
func (r *Recovery) contradicts() bool {
	if (r.moved|r.exceeded)&^allHidden != 0 || r.exceeded&^r.moved != 0 {
		return true
	}
	for f := Greedy; f <= Usage; f++ {
		switch ratio := r.ratios[f]; {
		case !r.moved.has(f) && ratio != 1, r.moved.has(f) && !r.exceeded.has(f) && ratio <= 1:
			return true
		}
	}
	return false
}
