package ladder

import "time"

// Facts are what the next step of a provider and model depends on.
type Facts struct {
	// M is the evidence since M was last set to 0: in notice and confirm the fresh M.
	M float64
	// AtLevel is how long the level has lasted.
	AtLevel time.Duration
	// Hours is the number of different UTC hours with b = 1 since M was last set to 0.
	Hours int
	// Rank is j of the provider's j-th model, from 1.
	Rank int
	// SinceConfirm is the time since the last confirmation ended, if Tried.
	Tried        bool
	SinceConfirm time.Duration
	// Confirmed is the evidence of the running confirmation, and Spent its observations.
	Confirmed float64
	Spent     int
	// Recovered reports whether the provider has recovered from the notice.
	Recovered bool
	// Silent is the number of voids in SilentPeriod that the provider caused
	// (statistic.Void).
	Silent int
	Brakes Brakes
}

// Brakes keep the ladder from punishing.
type Brakes struct {
	// CommonCause reports whether a common cause is suspected: the ladder stands still.
	CommonCause bool
	// WatchOnly reports whether the stratum's calibration reaches no further than watch.
	WatchOnly bool
	// PenaltiesOff reports whether penalties are switched off.
	PenaltiesOff bool
}

// Held says why a step that the evidence asks for is not taken.
type Held string

// The reasons. NotHeld is the Held of a decision that nothing holds back.
const (
	NotHeld      Held = ""
	CommonCause  Held = "common_cause"
	WatchOnly    Held = "calibration_reaches_watch"
	PenaltiesOff Held = "penalties_off"
	// Waiting is a notice that is too young, a pause between confirmations, or too few
	// hours with b = 1.
	Waiting Held = "waiting"
)

// Decision is the next step. Trigger is empty where the level stays.
type Decision struct {
	Trigger Trigger
	To      Level
	Held    Held
}

// Next decides the next step of a level. It never returns Settle and Reverse, which
// settlement decides. A level that is none stays.
func Next(from Level, f Facts, limits Thresholds) Decision {
	t := wanted(from, f, limits)
	if t == "" {
		return Decision{To: from}
	}
	if held := f.held(t); held != NotHeld {
		return Decision{To: from, Held: held}
	}
	return Decision{Trigger: t, To: transitions[from][t]}
}

// wanted is the trigger that the evidence asks for.
func wanted(from Level, f Facts, limits Thresholds) Trigger {
	switch from {
	case Normal:
		if f.M >= limits.Watch || f.Silent >= SilentVoids {
			return Suspect
		}
	case Watch:
		if f.M >= limits.Notice {
			return Notify
		}
		if f.M < SubsidedEvidence && f.AtLevel >= WatchPeriod && f.Silent < SilentVoids {
			return Subside
		}
	case Notice:
		if f.M >= PenaltyEvidence*RankFactor(max(f.Rank, 1)) {
			return Pursue
		}
		if f.Recovered {
			return Recover
		}
	case Confirm:
		if f.Confirmed >= ConfirmEvidence && f.Spent <= ConfirmProbes {
			return Convict
		}
		if f.Spent >= ConfirmProbes {
			return Acquit
		}
	case Penalty:
	}
	return ""
}

// held says what keeps the trigger from acting.
func (f Facts) held(t Trigger) Held {
	switch {
	case f.Brakes.CommonCause:
		return CommonCause
	case f.Brakes.WatchOnly && (t == Notify || t == Pursue || t == Convict):
		return WatchOnly
	case t == Convict && f.Brakes.PenaltiesOff:
		return PenaltiesOff
	case t == Pursue && f.waiting():
		return Waiting
	}
	return NotHeld
}

func (f Facts) waiting() bool {
	return f.AtLevel < NoticePeriod || f.Hours < PenaltyHours || (f.Tried && f.SinceConfirm < ConfirmPause)
}
