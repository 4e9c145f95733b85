package provider

import (
	"slices"
	"time"
)

// Cause is why a provider is suspended. A provider that is not rejected is suspended
// exactly while it has a cause, and the end of one cause ends no other. A provider that is
// rejected keeps its causes, is shut out anyway, and is suspended again when it returns
// while one of them holds: a refund that is asked for during a removal does not end the
// removal. The database enforces it (store/functions/provider_suspended_by_cause.sql).
type Cause string

// The causes.
const (
	// CauseAdmin is an operator's word.
	CauseAdmin Cause = "admin"
	// CauseRefund is a refund of collateral that is under way.
	CauseRefund Cause = "refund"
	// CauseCard is a card payment of collateral that was reversed.
	CauseCard Cause = "card"
	// CauseExit is a depositor's exit on chain.
	CauseExit Cause = "exit"
)

// Causes returns every cause. Their order is that of Suspensions.
func Causes() [CauseCount]Cause { return [...]Cause{CauseAdmin, CauseRefund, CauseCard, CauseExit} }

// CauseCount is how many causes there are.
const CauseCount = 4

// BySettlement reports whether settlement begins and ends the cause.
func (c Cause) BySettlement() bool { return c == CauseRefund || c == CauseCard || c == CauseExit }

// Meaning says what the cause means for its provider.
func (c Cause) Meaning() string {
	switch c {
	case CauseAdmin:
		return "An operator suspended the account. Ask the operators why."
	case CauseRefund:
		return "Your collateral is being refunded. The suspension ends when the refund is paid out or cancelled."
	case CauseCard:
		return "A card payment of your collateral was reversed. The suspension ends when that is settled."
	case CauseExit:
		return "Collateral of yours is leaving by an exit on chain. " +
			"The suspension ends when it has left or the exit is cancelled."
	}
	return "The account is suspended."
}

// Suspension is what is known of one cause of a provider.
type Suspension struct {
	// Since is when the cause began to hold; zero while it does not.
	Since  time.Time
	Reason string
	// Revision numbers the last word of settlement on the cause; 0 for none.
	Revision int64
}

// Suspensions are a provider's causes, in the order of Causes.
type Suspensions [CauseCount]Suspension

// Of is the state of a cause; nil for a cause that there is not.
func (s *Suspensions) Of(cause Cause) *Suspension {
	for i, c := range Causes() {
		if c == cause {
			return &s[i]
		}
	}
	return nil
}

// Hold lists the causes that hold, the oldest first.
func (s *Suspensions) Hold() []Cause {
	var list []Cause
	for i, c := range Causes() {
		if !s[i].Since.IsZero() {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b Cause) int { return s.Of(a).Since.Compare(s.Of(b).Since) })
	return list
}
