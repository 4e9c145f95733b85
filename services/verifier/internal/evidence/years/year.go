package years

import "svc.internal/services/verifier/internal/evidence"

// Until returns the number of probes after which M reaches a threshold for the first time.
// reached is false if limit probes do not suffice.
func (p Provider) Until(s Source, threshold float64, limit int) (probes int, reached bool, err error) {
	var process evidence.Process
	var said []evidence.Observation
	for n := 1; n <= limit; n++ {
		if said, err = p.Probe(s, said[:0]); err != nil {
			return 0, false, err
		}
		if err = process.Observe(said...); err != nil {
			return 0, false, err
		}
		if process.M() >= threshold {
			return n, true, nil
		}
	}
	return limit, false, nil
}

// Year is what happened in a simulated year.
type Year struct {
	// Crossings is how often M reached the threshold. M is set to 0 each time.
	Crossings int
	// Largest is the largest M.
	Largest float64
}

// Year simulates a year of probes.
func (p Provider) Year(s Source, threshold float64, probes int) (Year, error) {
	var process evidence.Process
	var said []evidence.Observation
	var year Year
	var err error
	for range probes {
		if said, err = p.Probe(s, said[:0]); err != nil {
			return Year{}, err
		}
		if err = process.Observe(said...); err != nil {
			return Year{}, err
		}
		m := process.M()
		year.Largest = max(year.Largest, m)
		if m >= threshold {
			year.Crossings++
			process.Reset()
		}
	}
	return year, nil
}

// Confirm runs one confirmation to its final outcome and returns it with the number of
// probes.
func (p Provider) Confirm(s Source) (evidence.Outcome, int, error) {
	c := evidence.NewConfirmation()
	var said []evidence.Observation
	var err error
	for c.Outcome() == evidence.Open {
		if said, err = p.Probe(s, said[:0]); err != nil {
			return evidence.Open, 0, err
		}
		if _, err = c.Observe(said...); err != nil {
			return evidence.Open, 0, err
		}
	}
	return c.Outcome(), c.Probes(), nil
}

// Recover returns the number of probes after which a provider has recovered from a notice
// that a family led to. reached is false if limit probes do not suffice.
func (p Provider) Recover(s Source, led evidence.Family, limit int) (probes int, reached bool, err error) {
	r := evidence.NewRecovery(led)
	var said []evidence.Observation
	for n := 1; n <= limit; n++ {
		if said, err = p.Probe(s, said[:0]); err != nil {
			return 0, false, err
		}
		if err = r.Observe(said...); err != nil {
			return 0, false, err
		}
		if r.Recovered() {
			return n, true, nil
		}
	}
	return limit, false, nil
}

// PairsUntil returns the number of pairs after which a threshold is reached by a provider
// whose probes and organic attempts fail at these rates. reached is false if limit pairs
// do not suffice.
func PairsUntil(s Source, probeRate, organicRate, threshold float64, limit int) (pairs int, reached bool) {
	var p evidence.Pairs
	for n := 1; n <= limit; n++ {
		probeFailed := s.Below(probeRate)
		p.Observe(probeFailed, s.Below(organicRate))
		if p.M() >= threshold {
			return n, true
		}
	}
	return limit, false
}
