package provider

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/uptime"
)

type verdictKind struct{}

// VerdictID names a verdict of the verifier.
type VerdictID = ids.Of[verdictKind]

// ParseVerdict reads the id of a verdict, a UUID.
func ParseVerdict(text string) (VerdictID, error) {
	var id VerdictID
	err := id.Scan(text)
	return id, err
}

// Removal is why verdicts keep an account rejected. It begins with the Expel of one
// verdict. Further verdicts join it. It ends when all of them are reversed, or when the
// account leaves the status rejected otherwise: by a review that its provider asked for
// after ReapplyAfter, or by an operator who suspends it. Then no reversal counts any
// more.
//
// What a removal took, the last reversal gives back: the keys that its verdicts revoked,
// unless somebody revoked them since or they expired; the status pending, from which an
// account whose facts hold is active at once, with only what was left of its probation,
// which RestKept bounds in time;
// but suspended where a cause of a suspension holds, and rejected where an operator had
// rejected it before. A removal that ends otherwise uses the benchmark up.
type Removal struct {
	// From is the status from which the first verdict took the account; empty where no
	// verdict keeps it rejected.
	From Status
	// Reason is the reason of the latest verdict that stands.
	Reason string
}

// Any reports whether there is a removal.
func (r Removal) Any() bool { return r.From != "" }

// ProbationRest is the remainder of a probation that a removal ended. The zero value is a
// whole probation.
//
// The two parts are judged as one probation: by what was left alone, a provider that was
// away for 23 hours would pass by its last, and a provider that was there for 23 hours
// would fail by the minutes in which its machines come back.
type ProbationRest struct {
	Known bool
	Left  time.Duration
	// Until is when the remainder stops to count: RestKept after the reversal, because a
	// provider that is activated later is another matter, with a whole probation. It is
	// zero while the removal lasts.
	Until time.Time
	// Before is the uptime in the parts of the probation that are over. It is the only
	// field that is set while the account is active.
	Before uptime.Uptime
}

// at is the remainder that counts at a time.
func (r ProbationRest) at(now time.Time) ProbationRest {
	if !r.Until.IsZero() && !now.Before(r.Until) {
		return ProbationRest{}
	}
	return r
}

// endsAt is when a probation that goes on now ends; zero where it was passed.
func (r ProbationRest) endsAt(now time.Time) time.Time {
	switch {
	case !r.Known:
		return now.Add(Probation)
	case r.Left == 0:
		return time.Time{}
	default:
		return now.Add(r.Left)
	}
}

// VerdictState is what has become of a verdict that expelled a provider.
type VerdictState string

// The states of a verdict.
const (
	// VerdictUnknown is a verdict that expelled nobody.
	VerdictUnknown VerdictState = ""
	// VerdictStands keeps its provider rejected.
	VerdictStands VerdictState = "stands"
	// VerdictWasReversed was taken back by Reinstate.
	VerdictWasReversed VerdictState = "reversed"
	// VerdictOver stood until its removal ended otherwise.
	VerdictOver VerdictState = "over"
)

// Verdict is what is kept of a verdict against an account.
type Verdict struct {
	ID    VerdictID
	State VerdictState
	// Elsewhere reports that it is a verdict against another account.
	Elsewhere bool
	// Others is how many other verdicts stand against the account.
	Others int
}
