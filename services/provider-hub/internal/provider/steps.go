package provider

import (
	"strings"
	"time"

	"svc.internal/pkg/fault"
)

// follow applies the triggers that follow from the facts.
func (c *change) follow() error {
	a := c.account
	if len(a.Suspensions.Hold()) > 0 && a.Status != Suspended && a.Status != Rejected {
		return c.suspendAgain()
	}
	if a.Status == Approved && !a.Facts.CollateralAt.IsZero() {
		if err := c.fire(ConfirmCollateral); err != nil {
			return err
		}
	}
	if (a.Status == Pending || a.Status == Activating) && !a.Reference &&
		(a.Vendor || a.Facts.Qualified(c.now)) {
		c.by, c.reason, c.verdict = ByPlatform, "", VerdictID{}
		return c.fire(Qualify)
	}
	return nil
}

// to moves an account to the status that an operator asks for by name. The same status
// again changes nothing.
func (c *change) to(want Status) error {
	if want == Suspended {
		return c.suspend(CauseAdmin)
	}
	if want == c.account.Status {
		return nil
	}
	switch want {
	case Active:
		return c.activate()
	case Pending:
		return c.release()
	case UnderReview:
		return c.review()
	case Approved:
		return c.fire(Approve)
	case Rejected:
		return c.fire(Reject)
	case Activating:
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"a provider is activating by itself, when it is approved and its collateral confirmed").On("status")
	default:
		return fault.New(fault.Invalid, fault.InvalidValue, "no such status").On("status")
	}
}

// activate approves a review, and refuses to go on where a fact is missing: the status
// follows from the facts alone, and an operator's word replaces none of them.
func (c *change) activate() error {
	a := c.account
	if a.Reference {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "a reference is never active").On("status")
	}
	if a.Status == UnderReview {
		if err := c.fire(Approve); err != nil {
			return err
		}
	}
	if a.Status != Pending && a.Status != Approved && a.Status != Activating {
		_, err := a.Status.After(Qualify) // fails
		return err
	}
	if missing := a.Facts.Missing(c.now); len(missing) > 0 && !a.Vendor {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"a provider becomes active by itself, and this one does not have %s", strings.Join(missing, "; ")).On("status")
	}
	return nil
}

// release lifts a suspension, or withdraws what operators confirm. The benchmark is the
// verifier's.
func (c *change) release() error {
	if c.account.Status == Suspended {
		return c.liftByOperator()
	}
	if err := c.fire(Withdraw); err != nil {
		return err
	}
	if err := c.collateral(false); err != nil {
		return err
	}
	return c.waiver(false)
}

// review asks an operator to look at the account.
func (c *change) review() error {
	a := c.account
	if a.Status == Rejected {
		if again := a.RejectedAt.Add(ReapplyAfter); c.now.Before(again) {
			return fault.New(fault.Precondition, fault.TransitionNotAllowed,
				"this application was rejected; it may be made again from %s on", again.UTC().Format(time.RFC3339)).
				After(again.Sub(c.now)).With("again_at", again.UTC().Format(time.RFC3339))
		}
		if err := c.unsuspendedReview(); err != nil {
			return err
		}
	}
	return c.fire(RequestReview)
}
