package subscription

import "time"

// Tick returns what the clock does to a subscription, false for nothing. cause is why it ends.
func (s Subscription) Tick(now time.Time) (t Trigger, cause Cause, moves bool) {
	over := !now.Before(s.PeriodEnd)
	switch s.State {
	case Incomplete:
		if s.PageOver {
			return Finished, Abandoned, true
		}
	case Active, PastDue:
		switch {
		case over && s.Cancel:
			return Finished, Cancelled, true
		case over && s.State == Active:
			return PeriodOver, "", true
		case !now.Before(s.PeriodEnd.Add(Grace)):
			return Finished, Unpaid, true
		}
	case Ended:
	}
	return "", "", false
}

// Verdict is what a paid invoice does.
type Verdict string

// The verdicts.
const (
	// Extends covers a further period.
	Extends Verdict = "extends"
	// Past is of a period before one that is known, and changes nothing.
	Past Verdict = "past"
	// Begins begins another subscription.
	Begins Verdict = "begins"
	// Late is given back because its period was over when it was paid.
	Late Verdict = "late"
	// Surplus is given back because the consumer has nothing of it.
	Surplus Verdict = "surplus"
)

// GivesBack reports whether the invoice is given back.
func (v Verdict) GivesBack() bool { return v == Late || v == Surplus }

// Judge returns what a paid invoice does. taken reports whether the account has another plan:
// another subscription that has not ended, or an operator's plan.
func (s Subscription) Judge(i Invoice, taken bool) Verdict {
	switch {
	case !i.Paid.Before(i.PeriodEnd):
		return Late
	case !s.PeriodEnd.IsZero() && !i.PeriodEnd.After(s.PeriodEnd):
		return Past
	case taken:
		return Surplus
	case s.State != Ended:
		return Extends
	case s.Cause == Unpaid || s.Cause == Abandoned:
		return Begins
	}
	return Surplus
}
