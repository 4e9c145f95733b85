package standing

import "svc.internal/services/verifier/internal/trust"

// The words for why an offer is not in the main lane.
const (
	ReasonNone      = ""
	ReasonNotice    = "notice"
	ReasonUnjudged  = "unjudged"
	ReasonBenchmark = "benchmark"
	// ReasonInherited is a lane of another account of the same person.
	ReasonInherited = "inherited"
)

// Reason returns why an offer is in the lane that was published for it. proven reports
// whether a passed benchmark counted then.
func (s State) Reason(lane trust.Lane, proven bool) string {
	switch {
	case lane == trust.Main, lane == "":
		return ReasonNone
	case lane == trust.Shut && (!proven || s.BenchLane != trust.Main):
		return ReasonBenchmark
	case lane == s.MisrepLane:
		return ReasonNotice
	case lane == s.Unjudged.Lane():
		return ReasonUnjudged
	}
	return ReasonInherited
}
