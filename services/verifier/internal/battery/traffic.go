package battery

import "time"

// The rules of a renewal by traffic.
const (
	// RenewalPeriod is the time in which RenewalServed requests must be served.
	RenewalPeriod = 7 * 24 * time.Hour
	RenewalServed = 200
	// RenewalEvidence is the M below which evidence must be.
	RenewalEvidence = 20
)

// Traffic is what consumers' requests say of a provider's model in RenewalPeriod.
type Traffic struct {
	Served int
	M      float64
	// Recalled reports whether a recall passed in that time.
	Recalled bool
}

// Renews reports whether the traffic stands for a benchmark.
func (t Traffic) Renews() bool {
	return t.Served >= RenewalServed && t.M < RenewalEvidence && t.Recalled
}
