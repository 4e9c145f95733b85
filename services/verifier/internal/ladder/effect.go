package ladder

import "svc.internal/services/verifier/internal/trust"

// BasisPoints are ten-thousandths of the posted collateral.
type BasisPoints int

// The penalties.
const (
	FirstPenalty BasisPoints = 1000
	NextPenalty  BasisPoints = 3000
)

// Effects are what a step brings about. The zero value is nothing.
type Effects struct {
	// Rate is the number of challenges a day, or 0 for the ordinary number.
	Rate int
	// Tell reports whether the provider learns kind and time.
	Tell bool
	// Lane is the lane of this ladder from now on, or empty for the lane that is. Each of
	// the two ladders keeps one, and an offer has the worse (trust.Worse), so that a passed
	// benchmark does not lift what a notice set.
	Lane trust.Lane
	// CapTokens caps the displayed context window, or is 0. LiftCap lifts the cap.
	CapTokens int64
	LiftCap   bool
	// ResetM sets M, the recovery and the hours with b = 1 back to their beginnings.
	ResetM bool
	// OtherHost demands another reference host, and new evidence from it.
	OtherHost bool
	// Slash is the part of the collateral that is escrowed at once.
	Slash BasisPoints
	// Remove reports whether the provider is removed from the network.
	Remove bool
	// NeedsOperator reports whether an operator must agree before Slash and Remove.
	NeedsOperator bool
	// VoidObservations voids the observations of the penalty, and Reinstate lifts the
	// removal that the penalty brought, if it brought one.
	VoidObservations, Reinstate bool
	// Count is added to the number of penalties, which is never below 0.
	Count int
}

// Cause is what the effects of a step depend on besides the step.
type Cause struct {
	// ContextLeads reports whether the family of context recall leads (see Leads).
	ContextLeads bool
	// MeasuredTokens is the measured context window, or 0 where none was measured.
	MeasuredTokens int64
	// Penalties is the provider's number of penalties that count.
	Penalties int
}

// Leads reports whether the first weighted evidence is larger than all others.
func Leads(first float64, others ...float64) bool {
	for _, o := range others {
		if !(first > o) {
			return false
		}
	}
	return first > 0
}

// EffectsOf returns what the trigger brings about.
func EffectsOf(t Trigger, c Cause) Effects {
	switch t {
	case Suspect:
		return Effects{Rate: WatchRate}
	case Notify:
		return notice(c)
	case Pursue:
		return Effects{Rate: WatchRate, OtherHost: true}
	case Convict:
		return Sanction(c.Penalties)
	case Acquit:
		return Effects{Rate: WatchRate, ResetM: true}
	case Recover:
		return Effects{Rate: WatchRate, Lane: trust.Main}
	case Settle:
		return Effects{Rate: WatchRate, ResetM: true}
	case Reverse:
		return Effects{
			Tell: true, Lane: trust.Main, LiftCap: true, ResetM: true,
			VoidObservations: true, Reinstate: true, Count: -1,
		}
	case Subside:
	}
	return Effects{}
}

// notice caps the window where the window is what was misstated and its true size is
// known. All else, an unmeasured window included, goes to the probe lane.
func notice(c Cause) Effects {
	e := Effects{Rate: WatchRate, Tell: true, ResetM: true}
	if c.ContextLeads && c.MeasuredTokens > 0 {
		e.CapTokens = c.MeasuredTokens
	} else {
		e.Lane = trust.Probe
	}
	return e
}

// Sanction is the penalty of a provider that had so many: 10%, then 30% and removal, for
// which an operator must agree.
func Sanction(penalties int) Effects {
	if penalties <= 0 {
		return Effects{Tell: true, Slash: FirstPenalty, Count: 1}
	}
	return Effects{Tell: true, Slash: NextPenalty, Remove: true, NeedsOperator: true, Count: 1}
}

// CountAfter adds a change to a number of penalties.
func CountAfter(penalties, change int) int { return max(0, penalties+change) }
