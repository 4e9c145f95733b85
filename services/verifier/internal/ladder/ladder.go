// Package ladder decides what follows from evidence for a provider and a model.
//
// Two machines, each one table. Level is the ladder of misrepresentation: silent watch,
// notice, confirmation, penalty. Run (benchmark.go) is the ladder of benchmarks. Next and
// AfterRun are pure functions of plain values, so that a replay decides the same.
//
// The bounds of false penalties are those of the evidence (Ville's inequality, 1939): M of
// an honest provider reaches c in a year with probability 1/c at most, so that 10⁶ gives
// 10⁻⁶. The thresholds for money of a provider's j-th model are multiplied by j(j+1),
// because Σ 1/(j(j+1)) = 1 makes the bound the provider's. The confirmation is a second
// test, on another reference host, of a weaker hypothesis.
//
// Nothing punishes while penalties are off, while a stratum reaches no further than watch,
// or while a common cause is suspected. Next then stays where it is and says why.
package ladder

import (
	"errors"
	"fmt"
	"time"
)

// Level is where a provider stands with one model.
type Level string

// The levels.
const (
	// Normal is the beginning.
	Normal Level = "normal"
	// Watch asks more often and says nothing.
	Watch Level = "watch"
	// Notice says kind and time, and caps the context or limits the traffic.
	Notice Level = "notice"
	// Confirm tests again with another reference host.
	Confirm Level = "confirm"
	// Penalty has cost a part of the collateral. It lasts until the penalty is final.
	Penalty Level = "penalty"
)

// Levels returns every level.
func Levels() []Level { return []Level{Normal, Watch, Notice, Confirm, Penalty} }

// Trigger is what moves a provider from one level to another.
type Trigger string

// The triggers.
const (
	// Suspect is evidence for a watch.
	Suspect Trigger = "suspect"
	// Subside ends a watch whose evidence is used up.
	Subside Trigger = "subside"
	// Notify is evidence for a notice.
	Notify Trigger = "notify"
	// Recover ends a notice after a long clean row.
	Recover Trigger = "recover"
	// Pursue begins a confirmation.
	Pursue Trigger = "pursue"
	// Acquit ends a confirmation that did not confirm.
	Acquit Trigger = "acquit"
	// Convict ends a confirmation that did.
	Convict Trigger = "convict"
	// Settle follows when a penalty is final. What happened is paid; what happens next is
	// counted from nothing.
	Settle Trigger = "settle"
	// Reverse follows when a penalty is reversed.
	Reverse Trigger = "reverse"
)

// Triggers returns every trigger.
func Triggers() []Trigger {
	return []Trigger{Suspect, Subside, Notify, Recover, Pursue, Acquit, Convict, Settle, Reverse}
}

// transitions is the whole machine. A pair that is not in it is not allowed. The
// conditions are in next.go, the effects in effect.go.
var transitions = map[Level]map[Trigger]Level{
	Normal:  {Suspect: Watch},
	Watch:   {Subside: Normal, Notify: Notice},
	Notice:  {Recover: Watch, Pursue: Confirm},
	Confirm: {Acquit: Notice, Convict: Penalty},
	Penalty: {Settle: Notice, Reverse: Normal},
}

// ErrTransition is the error for a trigger that a level does not know.
var ErrTransition = errors.New("transition not allowed")

// After is the level that the trigger leads to.
func (l Level) After(t Trigger) (Level, error) {
	to, ok := transitions[l][t]
	if !ok {
		return "", fmt.Errorf("%w: %s cannot take %s", ErrTransition, l, t)
	}
	return to, nil
}

// Frequent reports whether the level asks WatchRate times a day.
func (l Level) Frequent() bool { return l == Watch || l == Notice || l == Confirm }

// The rules of the ladder that are no secrets.
const (
	// WatchRate is how many challenges a day a watched offer gets.
	WatchRate = 48
	// NoticePeriod is how long a notice lasts before money is at stake.
	NoticePeriod = 24 * time.Hour
	// PenaltyEvidence is the fresh M from which a first model's penalty is pursued, and
	// PenaltyHours the number of UTC hours with b = 1 that it needs.
	PenaltyEvidence = 1e6
	PenaltyHours    = 3
	// ConfirmEvidence is what a confirmation must reach within ConfirmProbes observations.
	ConfirmEvidence = 1e4
	ConfirmProbes   = 400
	// ConfirmPause lies between two confirmations.
	ConfirmPause = 7 * 24 * time.Hour
	// SubsidedEvidence is the M below which a watch of at least WatchPeriod ends. It lies
	// far below the threshold of a watch, so that offers do not flap.
	SubsidedEvidence = 1
	WatchPeriod      = 24 * time.Hour
	// SilentPeriod is the time in which three voids that the provider caused begin a watch.
	SilentPeriod = 24 * time.Hour
	SilentVoids  = 3
	// CleanPeriod is how long a provider must be clean before counters begin again.
	CleanPeriod = 30 * 24 * time.Hour
)

// Thresholds are the sealed values of M.
type Thresholds struct{ Watch, Notice float64 }

// DemoThresholds are the thresholds where nothing is sealed.
func DemoThresholds() Thresholds { return Thresholds{Watch: 20, Notice: 1000} }

// Check refuses thresholds outside the range that the bounds were simulated for.
func (t Thresholds) Check() error {
	// The comparisons are written so that NaN fails.
	if !(t.Watch >= 15 && t.Watch <= 30) {
		return errors.New("watch threshold is not between 15 and 30")
	}
	if !(t.Notice >= 1000 && t.Notice <= 2000) {
		return errors.New("notice threshold is not between 1000 and 2000")
	}
	return nil
}

// RankFactor is j(j+1) for a provider's j-th model, j from 1.
func RankFactor(j int) float64 { return float64(j) * (float64(j) + 1) }

// Clean reports whether counters begin again: nothing spoke against the provider for
// CleanPeriod.
func Clean(lastUnclean, now time.Time) bool { return now.Sub(lastUnclean) >= CleanPeriod }
