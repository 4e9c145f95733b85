package evidence

import "svc.internal/services/verifier/internal/evidence/form"

// Process is the evidence against one (provider, model): M_q of each family and bet. The
// zero value is the state without observations. Equal states are equal by ==.
type Process struct {
	judged [processes + 1][hiddenCount]float64 // by family; that of Sampled is unused
	ratios ratioProducts
}

// Observe moves the process by the observations of one probe, at most one for each family.
// It refuses a repeated family with ErrFamily, and moves nothing then.
func (p *Process) Observe(probe ...Observation) error {
	if err := whole(probe); err != nil {
		return err
	}
	for _, o := range probe {
		switch {
		case o.family == Sampled:
			p.ratios.observe(o.ratios, capital, 0, 1)
		case o.family.hasThreshold():
			observe(p.judged[o.family][:], hiddenBets[:], o.exceeded, capital)
		}
	}
	return nil
}

// M returns M = Σ_f w_f·M_f.
func (p *Process) M() float64 {
	sum := 0.0
	for f := Greedy; f <= Visible; f++ {
		sum += p.weighted(f)
	}
	return sum
}

// Of returns M_f of a family, 0 for a family without a process.
func (p *Process) Of(f Family) float64 {
	switch {
	case f == Sampled:
		return p.ratios.mean(0)
	case f.hasThreshold():
		return mean(p.judged[f][:])
	default:
		return 0
	}
}

// weighted returns w_f·M_f.
func (p *Process) weighted(f Family) float64 { return float64(f.Share() * p.Of(f)) }

// Leading returns the family whose w_f·M_f is largest, the first of equals. It returns
// NoFamily if M is 0.
func (p *Process) Leading() Family {
	leading, largest := NoFamily, 0.0
	for f := Greedy; f <= Visible; f++ {
		if m := p.weighted(f); m > largest {
			leading, largest = f, m
		}
	}
	return leading
}

// Reset sets M to 0, as at a notice.
func (p *Process) Reset() { *p = Process{} }

const processVersion = 1

// MarshalBinary returns the canonical form of the state. The error is always nil.
func (p *Process) MarshalBinary() ([]byte, error) {
	b := form.Start(form.Process, processVersion, 8*hiddenCount*(processes-1)+ratioFormMax)
	for f := Greedy; f <= Visible; f++ {
		if f.hasThreshold() {
			b = form.AppendFloats(b, p.judged[f][:]...)
		}
	}
	return p.ratios.append(b), nil
}

// UnmarshalBinary reads a form that MarshalBinary wrote. Its errors are form.ErrForm, and
// leave the state as it was.
func (p *Process) UnmarshalBinary(b []byte) error {
	var read Process
	r := form.Read(b, form.Process, processVersion)
	for f := Greedy; f <= Visible; f++ {
		if f.hasThreshold() {
			r.Floats(read.judged[f][:], 0, ceiling)
		}
	}
	read.ratios.read(r)
	if err := r.End(); err != nil {
		return err
	}
	*p = read
	return nil
}

// ratioFormMax is the largest size of a form of ratioProducts.
const ratioFormMax = 2 + 8*Alternatives*ratioCount

// append appends the set of joined alternatives and their products.
func (p *ratioProducts) append(b []byte) []byte {
	b = form.AppendUint16(b, uint16(p.joined))
	for g := range Alternative(Alternatives) {
		if p.joined.has(g) {
			b = form.AppendFloats(b, p.products[g][:]...)
		}
	}
	return b
}

// read reads what append wrote.
func (p *ratioProducts) read(r *form.Reader) {
	p.joined = alternatives(r.Uint16(uint16(allAlternatives)))
	for g := range Alternative(Alternatives) {
		if p.joined.has(g) {
			r.Floats(p.products[g][:], 0, ceiling)
		}
	}
}
