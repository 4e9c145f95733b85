package provider

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// maxVerdicts bounds the verdicts that stand against one provider.
const maxVerdicts = 16

// Expel removes a provider from the network by a verdict: the status becomes rejected,
// and its good keys are revoked. The same verdict again changes nothing, even after it
// was reversed or its removal was over. A verdict against a provider that is rejected
// already stands beside what rejected it. It fails with provider_not_found,
// invalid_value, and transition_not_allowed for a verdict against another provider.
//
// The uptime of a probation under way is measured before, because what is left of the
// probation may go on later.
func (d *Directory) Expel(ctx context.Context, id ids.ProviderID, verdict VerdictID, reason string) (Account, error) {
	a, err := d.store.Get(ctx, id)
	if err != nil {
		return Account{}, err
	}
	begun := d.verdictChange(verdict, reason)
	if a.InProbation() {
		to := begun.now
		if a.ProbationEndsAt.Before(to) {
			to = a.ProbationEndsAt
		}
		if begun.seen, err = d.seen(ctx, id, a.ActiveSince, to); err != nil {
			return Account{}, err
		}
		begun.seenSince = a.ActiveSince
	}
	return d.byVerdict(ctx, id, begun, (*change).expel)
}

// Reinstate takes back an Expel whose verdict was reversed. While another verdict stands,
// only the reversal is kept. The same verdict again changes nothing. It fails with
// provider_not_found, invalid_value, and transition_not_allowed where the verdict does
// not keep the provider rejected.
func (d *Directory) Reinstate(
	ctx context.Context, id ids.ProviderID, verdict VerdictID, reason string,
) (Account, error) {
	return d.byVerdict(ctx, id, d.verdictChange(verdict, reason), (*change).reinstate)
}

// verdictChange begins a change by a verdict.
func (d *Directory) verdictChange(verdict VerdictID, reason string) change {
	return change{by: ByPlatform, reason: reason, now: d.clock.Now(), verdict: verdict}
}

func (d *Directory) byVerdict(
	ctx context.Context, id ids.ProviderID, begun change, what func(*change, *Verdict) error,
) (Account, error) {
	if err := checkText("reason", begun.reason, 0, maxReason); err != nil {
		return Account{}, err
	}
	return d.store.ChangeByVerdict(ctx, id, begun.verdict, begun.now, func(a *Account, v *Verdict) ([]Entry, error) {
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
	return c.fire(Reinstate) // and follow suspends it again while a cause holds
}
