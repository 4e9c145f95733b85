package evidence

import (
	"slices"

	"svc.internal/services/verifier/internal/evidence/form"
)

// Outcome is where a Confirmation stands.
type Outcome uint8

// The outcomes. Proven and Spent are final.
const (
	// Open takes further probes.
	Open Outcome = iota
	// Proven is that E reached ConfirmThreshold.
	Proven
	// Spent is that MaxConfirmProbes probes did not prove anything.
	Spent
)

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case Open:
		return "open"
	case Proven:
		return "proven"
	case Spent:
		return "spent"
	default:
		return "unknown outcome"
	}
}

const (
	// ConfirmThreshold is what E must reach.
	ConfirmThreshold = 10_000
	// MaxConfirmProbes is the number of probes, of all families together, within which E
	// must reach the threshold.
	MaxConfirmProbes = 400
)

// Confirmation judges an offer again after a notice, against H₀′: P(b = 1 | past) ≤ .05.
//
//	E = Σ_f w_f · mean_q Π e_q
//
// over the probes since the confirmation began. The bounds of family R are multiplied by
// 1.25. Products start at 1 and never start anew: E is at most .9 at the start and has no
// larger expectation at any later time under H₀′, so that Ville's inequality bounds the
// chance of Proven by 10⁻⁴. NewConfirmation makes it; the zero value has nothing to grow.
type Confirmation struct {
	products [processes + 1][confirmCount]float64 // by family; that of Sampled is unused
	ratios   ratioProducts
	probes   int
	outcome  Outcome
}

// NewConfirmation returns a confirmation without probes.
func NewConfirmation() Confirmation {
	var c Confirmation
	for f := Greedy; f <= Visible; f++ {
		if !f.hasThreshold() {
			continue
		}
		for i := range c.products[f] {
			c.products[f][i] = 1
		}
	}
	return c
}

// Observe moves the confirmation by the observations of one probe, at most one for each
// family, and returns the outcome. A final outcome stays. A probe without observations does
// not count. Observe refuses a repeated family with ErrFamily, and moves nothing then.
func (c *Confirmation) Observe(probe ...Observation) (Outcome, error) {
	if err := whole(probe); err != nil {
		return c.outcome, err
	}
	says := func(o Observation) bool { return o.family != NoFamily }
	if c.outcome != Open || !slices.ContainsFunc(probe, says) {
		return c.outcome, nil
	}
	for _, o := range probe {
		switch {
		case o.family == Sampled:
			c.ratios.observe(o.ratios, 0, 1, confirmSlack)
		case o.family.hasThreshold():
			observe(c.products[o.family][:], confirmBets[:], o.exceeded, 0)
		}
	}
	c.probes++
	c.outcome = c.judge()
	return c.outcome, nil
}

// judge returns the outcome of the products and the count.
func (c *Confirmation) judge() Outcome {
	switch {
	case c.E() >= ConfirmThreshold:
		return Proven
	case c.probes >= MaxConfirmProbes:
		return Spent
	default:
		return Open
	}
}

// E returns Σ_f w_f · mean_q Π e_q.
func (c *Confirmation) E() float64 {
	sum := 0.0
	for f := Greedy; f <= Visible; f++ {
		m := 0.0
		if f == Sampled {
			m = c.ratios.mean(1)
		} else {
			m = mean(c.products[f][:])
		}
		sum += float64(f.Share() * m)
	}
	return sum
}

// Probes returns the number of probes that moved the confirmation.
func (c *Confirmation) Probes() int { return c.probes }

// Outcome returns where the confirmation stands.
func (c *Confirmation) Outcome() Outcome { return c.outcome }

const confirmationVersion = 1

// MarshalBinary returns the canonical form of the state. The outcome is not in it,
// because it follows from the products and the count. The error is always nil.
func (c *Confirmation) MarshalBinary() ([]byte, error) {
	b := form.Start(form.Confirmation, confirmationVersion, 2+8*confirmCount*(processes-1)+ratioFormMax)
	b = form.AppendUint16(b, uint16(c.probes))
	for f := Greedy; f <= Visible; f++ {
		if f.hasThreshold() {
			b = form.AppendFloats(b, c.products[f][:]...)
		}
	}
	return c.ratios.append(b), nil
}

// UnmarshalBinary reads a form that MarshalBinary wrote. Its errors are form.ErrForm, and
// leave the state as it was.
func (c *Confirmation) UnmarshalBinary(b []byte) error {
	var read Confirmation
	r := form.Read(b, form.Confirmation, confirmationVersion)
	read.probes = int(r.Uint16(MaxConfirmProbes))
	for f := Greedy; f <= Visible; f++ {
		if f.hasThreshold() {
			r.Floats(read.products[f][:], 0, ceiling)
		}
	}
	read.ratios.read(r)
	if err := r.End(); err != nil {
		return err
	}
	read.outcome = read.judge()
	*c = read
	return nil
}
