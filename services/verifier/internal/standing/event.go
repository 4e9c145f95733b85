package standing

import (
	"errors"
	"fmt"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
)

// ErrEvent is the error for an event that cannot be in the state.
var ErrEvent = errors.New("the event cannot be")

// Event is one thing that happened: exactly one field is set. Its JSON is part of evidence.
type Event struct {
	// Judged is a probe that was carried out. Apply judges it.
	Judged *judge.Record `json:"judged,omitempty"`
	// Paired is a probe and the provider's next organic attempt.
	Paired *Pair `json:"paired,omitempty"`
	// Ticked is that time has passed.
	Ticked *Tick `json:"ticked,omitempty"`
	// Run is a benchmark run that ended.
	Run *RunJudged `json:"run,omitempty"`
	// Penalty is settlement's word on a penalty.
	Penalty *PenaltyMoved `json:"penalty,omitempty"`
	// Voided voids observations.
	Voided *Voiding `json:"voided,omitempty"`
	// Asked is that the provider asks for a benchmark.
	Asked *Ask `json:"asked,omitempty"`
	// Operator is an operator's word on a penalty that needs one.
	Operator *Approval `json:"operator,omitempty"`
}

// Pair says whether a probe failed, and whether the provider's next organic attempt at the
// same model did.
type Pair struct {
	ProbeFailed   bool `json:"probe_failed"`
	OrganicFailed bool `json:"organic_failed"`
}

// Tick has nothing but its time.
type Tick struct{}

// Ask has nothing but its time.
type Ask struct{}

// RunJudged is what a benchmark run measured. With Traffic it is a renewal by traffic, and
// Facts are not read.
type RunJudged struct {
	Run     probe.RunID      `json:"run"`
	Facts   battery.Facts    `json:"facts"`
	Traffic *battery.Traffic `json:"traffic,omitempty"`
}

// Final is settlement's state of a penalty.
type Final string

// The states that matter. Executed and Reversed are final; Upheld precedes Executed.
const (
	Executed Final = "executed"
	Reversed Final = "reversed"
	Upheld   Final = "upheld"
)

// PenaltyMoved says that a penalty of this offer has another state.
type PenaltyMoved struct {
	Verdict probe.VerdictID `json:"verdict"`
	Final   Final           `json:"final"`
}

// Voiding voids the observations since a moment, because of a common cause or by an
// operator's word. M, recovery and confirmation start anew, and a notice that was given
// since then is taken back.
type Voiding struct {
	By    string    `json:"by"`
	Since time.Time `json:"since"`
}

// Approval is an operator's word on a pending penalty: they agree to it, or refuse it.
type Approval struct {
	Verdict probe.VerdictID `json:"verdict"`
	By      string          `json:"by"`
	Refused bool            `json:"refused,omitempty"`
}

// maxBy bounds the name of who voids or approves.
const maxBy = 128

// Name returns what kind of event it is, "" for one of which not exactly one field is set.
func (e Event) Name() string {
	name, n := "", 0
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"judged", e.Judged != nil}, {"paired", e.Paired != nil}, {"ticked", e.Ticked != nil}, {"run", e.Run != nil},
		{"penalty", e.Penalty != nil}, {"voided", e.Voided != nil}, {"asked", e.Asked != nil},
		{"operator", e.Operator != nil},
	} {
		if f.set {
			name, n = f.name, n+1
		}
	}
	if n != 1 {
		return ""
	}
	return name
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrEvent, fmt.Sprintf(format, args...))
}
