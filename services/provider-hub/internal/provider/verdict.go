package provider

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// maxVerdicts bounds the verdicts that stand against one provider.
const maxVerdicts = 16

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
// account whose facts hold is active at once, with only what was left of its probation;
// but suspended where it was suspended before, and rejected where an operator had
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

// ProbationRest is what is left of a probation. The zero value is a whole one.
type ProbationRest struct {
	Known bool
	Left  time.Duration
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

// probationRest is what would be left of the probation if the activation ended now.
func (a *Account) probationRest(now time.Time) ProbationRest {
	if a.Status != Active {
		return a.Rest
	}
	if !a.InProbation() {
		return ProbationRest{Known: true}
	}
	return ProbationRest{Known: true, Left: min(max(a.ProbationEndsAt.Sub(now), 0), Probation)}
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

// verdictStore is what verdicts need of a store.
type verdictStore interface {
	// ChangeByVerdict is Change with what is kept of a verdict, and keeps the verdict as
	// apply left it. A verdict that begins to stand revokes the keys that are good now.
	// The reversal of the last verdict that stands makes the keys good again which the
	// verdicts of the removal revoked, unless they have expired by now or were revoked
	// since.
	ChangeByVerdict(ctx context.Context, id ids.ProviderID, verdict VerdictID, now time.Time,
		apply func(*Account, *Verdict) ([]Entry, error)) (Account, error)
}

// Expel removes a provider from the network by a verdict: the status becomes rejected,
// and its good keys are revoked. The same verdict again changes nothing, even after it
// was reversed or its removal was over. A verdict against a provider that is rejected
// already stands beside what rejected it. It fails with provider_not_found,
// invalid_value, and transition_not_allowed for a verdict against another provider.
func (d *Directory) Expel(ctx context.Context, id ids.ProviderID, verdict VerdictID, reason string) (Account, error) {
	return d.byVerdict(ctx, id, verdict, reason, (*change).expel)
}

// Reinstate takes back an Expel whose verdict was reversed. While another verdict stands,
// only the reversal is kept. The same verdict again changes nothing. It fails with
// provider_not_found, invalid_value, and transition_not_allowed where the verdict does
// not keep the provider rejected.
func (d *Directory) Reinstate(
	ctx context.Context, id ids.ProviderID, verdict VerdictID, reason string,
) (Account, error) {
	return d.byVerdict(ctx, id, verdict, reason, (*change).reinstate)
}

func (d *Directory) byVerdict(ctx context.Context, id ids.ProviderID, verdict VerdictID, reason string,
	what func(*change, *Verdict) error,
) (Account, error) {
	if err := checkText("reason", reason, 0, maxReason); err != nil {
		return Account{}, err
	}
	begun := change{by: ByPlatform, reason: reason, now: d.clock.Now(), verdict: verdict}
	return d.store.ChangeByVerdict(ctx, id, verdict, begun.now, func(a *Account, v *Verdict) ([]Entry, error) {
		return begun.of(a, func(c *change) error {
			if v.Elsewhere {
				return VerdictElsewhere()
			}
			return what(c, v)
		})
	})
}

// VerdictElsewhere is the error of a verdict against another provider.
func VerdictElsewhere() error {
	return fault.New(fault.Precondition, fault.TransitionNotAllowed, "the verdict is against another provider").On(
		"verdict_id")
}

// expel removes the account by a verdict that is not known yet.
func (c *change) expel(v *Verdict) error {
	a := c.account
	switch {
	case v.State != VerdictUnknown:
		return nil
	case v.Others >= maxVerdicts:
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "%d verdicts stand against the provider already",
			v.Others).On("verdict_id")
	}
	v.State = VerdictStands
	if !a.Removal.Any() {
		a.Removal.From = a.Status
	}
	a.Removal.Reason = c.reason
	if a.Status != Rejected {
		return c.fire(Expel)
	}
	a.RejectedAt = c.now
	c.note(string(Expel))
	return nil
}

// reinstate reverses a verdict that stands, and ends the removal with the last one.
func (c *change) reinstate(v *Verdict) error {
	a := c.account
	switch {
	case v.State == VerdictWasReversed:
		return nil
	case v.State != VerdictStands || a.Status != Rejected:
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"the verdict does not keep this provider rejected").On("verdict_id")
	}
	v.State = VerdictWasReversed
	if v.Others > 0 {
		c.note(VerdictReversed)
		return nil
	}
	from := a.Removal.From
	a.Removal = Removal{}
	if from == Rejected { // an operator's word, which stands
		c.note(VerdictReversed)
		return nil
	}
	if err := c.fire(Reinstate); err != nil {
		return err
	}
	if from != Suspended {
		return nil
	}
	c.reason, c.verdict = "it was suspended before it was removed", VerdictID{}
	return c.fire(Suspend)
}

// endRemoval ends a removal whose verdicts were not reversed. The benchmark is from
// before it, so the next activation wants another one.
func (c *change) endRemoval() {
	a := c.account
	if !a.Removal.Any() {
		return
	}
	a.Removal, a.Rest = Removal{}, ProbationRest{}
	a.Facts.BenchmarkAt = time.Time{}
	c.unwaive()
}
