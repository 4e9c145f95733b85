package window

import "svc.internal/services/verifier/internal/evidence/form"

const version = 1

// sumSlack is how far from 1 rounding and the least probabilities may move the
// posterior's sum.
const sumSlack = 1e-9

// MarshalBinary returns the canonical form of the state. The error is always nil.
func (m *Measurement) MarshalBinary() ([]byte, error) {
	b := form.Start(form.Window, version, 3*8+2*2+8*Candidates)
	b = form.AppendUint64(b, uint64(m.smallest))
	b = form.AppendUint64(b, uint64(m.largest))
	b = form.AppendUint64(b, uint64(m.refused))
	b = form.AppendUint16(b, uint16(m.prompts))
	b = form.AppendUint16(b, uint16(m.phase))
	return form.AppendFloats(b, m.posterior[:]...), nil
}

// UnmarshalBinary reads a form that MarshalBinary wrote. Its errors are form.ErrForm, and
// leave the state as it was.
func (m *Measurement) UnmarshalBinary(b []byte) error {
	var read Measurement
	r := form.Read(b, form.Window, version)
	read.smallest, read.largest = int(r.Uint64(MaxTokens)), int(r.Uint64(MaxTokens))
	read.refused = int(r.Uint64(2 * MaxTokens))
	read.prompts, read.phase = int(r.Uint16(MaxPrompts)), Phase(r.Uint16(uint16(Abandoned)))
	r.Floats(read.posterior[:], 0, 1)
	if err := r.End(); err != nil {
		return err
	}
	if why := read.contradiction(); why != "" {
		r.Refuse(why)
		return r.End()
	}
	*m = read
	return nil
}

// contradiction says which fields of a state cannot be together, "" if all can.
func (m *Measurement) contradiction() string {
	if _, err := New(m.smallest, m.largest); err != nil {
		return "the span of windows"
	}
	sum := 0.0
	for i, p := range m.posterior {
		if m.excluded(i) != (p == 0) || (p > 0 && p < unlikely) {
			return "the probability of a candidate"
		}
		sum += p
	}
	if sum < 1-sumSlack || sum > 1+sumSlack {
		return "the sum of the probabilities"
	}
	switch m.phase {
	case Measuring:
		if m.prompts < MaxPrompts {
			return ""
		}
	case Checking:
		if m.prompts < MaxPrompts && m.narrow() == narrowed {
			return ""
		}
	case Measured:
		if m.narrow() == narrowed {
			return ""
		}
	case Abandoned:
		return ""
	}
	return "the phase"
}
