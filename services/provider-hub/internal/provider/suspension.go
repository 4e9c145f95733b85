package provider

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// SuspensionWord is the word of settlement on one of its causes.
type SuspensionWord struct {
	Cause Cause
	On    bool
	// Revision grows with every word on this cause of the provider, from 1. It is at most
	// the Unix time of tomorrow in microseconds.
	Revision int64
}

// SetSuspension records the word of settlement on a cause, and the status follows by
// itself. Only a revision that is newer than every one before changes anything. It fails
// with provider_not_found, and with invalid_value for a cause that is not settlement's.
func (d *Directory) SetSuspension(
	ctx context.Context, id ids.ProviderID, said SuspensionWord, reason string,
) (Account, error) {
	if !said.Cause.BySettlement() {
		return Account{}, fault.New(fault.Invalid, fault.InvalidValue, "cause must be refund, card or exit").On("cause")
	}
	if err := d.checkRevision(said.Revision); err != nil {
		return Account{}, err
	}
	return d.change(ctx, id, ByPlatform, reason, func(c *change) error {
		s := c.account.Suspensions.Of(said.Cause)
		if said.Revision <= s.Revision {
			return nil
		}
		s.Revision = said.Revision
		if said.On {
			return c.suspend(said.Cause)
		}
		return c.lift(said.Cause)
	})
}

// suspend begins a cause. One that holds already keeps its time and reason. A provider that
// is rejected leaves that status by an operator's word alone.
func (c *change) suspend(cause Cause) error {
	a := c.account
	s := a.Suspensions.Of(cause)
	held := !s.Since.IsZero()
	if !held {
		s.Since, s.Reason = c.now, c.reason
	}
	defer c.causedBy(cause)()
	switch {
	case a.Status == Rejected && !cause.BySettlement():
		return c.fire(Suspend)
	case held:
		return nil
	case a.Status == Suspended || a.Status == Rejected:
		c.note(SuspensionBegun)
		return nil
	default:
		return c.fire(Suspend)
	}
}

// lift ends a cause, and the suspension with the last one.
func (c *change) lift(cause Cause) error {
	a := c.account
	s := a.Suspensions.Of(cause)
	if s.Since.IsZero() {
		return nil
	}
	s.Since, s.Reason = time.Time{}, ""
	defer c.causedBy(cause)()
	if a.Status != Suspended || len(a.Suspensions.Hold()) > 0 {
		c.note(SuspensionEnded)
		return nil
	}
	return c.fire(Lift)
}

// causedBy has the entries name a cause until the returned function is called.
func (c *change) causedBy(cause Cause) func() {
	c.cause = cause
	return func() { c.cause = "" }
}

// liftByOperator ends an operator's cause. What settlement began, settlement ends.
func (c *change) liftByOperator() error {
	if a := c.account; a.Suspensions.Of(CauseAdmin).Since.IsZero() {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"no operator suspended this provider, and what did ends by itself (%s)", a.Suspensions.Hold()).On("status")
	}
	return c.lift(CauseAdmin)
}

// suspendAgain suspends a provider that returned while a cause holds.
func (c *change) suspendAgain() error {
	defer c.causedBy(c.account.Suspensions.Hold()[0])()
	c.by, c.reason, c.verdict = ByPlatform, "a cause of its suspension still holds", VerdictID{}
	return c.fire(Suspend)
}

// unsuspendedReview ends what an operator said before a removal or rejection, because the
// review decides anew, and fails while a cause of settlement's holds.
func (c *change) unsuspendedReview() error {
	a := c.account
	for _, cause := range a.Suspensions.Hold() {
		if cause.BySettlement() {
			return fault.New(fault.Precondition, fault.TransitionNotAllowed, "a review has to wait: %s", cause.Meaning())
		}
	}
	return c.lift(CauseAdmin)
}
