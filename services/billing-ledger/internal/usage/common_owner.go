package usage

import (
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Rule is how it is known that an account and a provider have one owner.
type Rule string

// SameUser ties the account and the provider of one user, who signs in to both.
const SameUser Rule = "same_user"

// Rules lists them all, for metrics and tests.
func Rules() []Rule { return []Rule{SameUser} }

// Pair is an account and a provider that may serve its requests.
type Pair struct {
	Account  ids.AccountID
	Provider ids.ProviderID
}

// held is the rule by which the payout of a line is kept from being paid, empty
// for nearly all. It is when an owner pays itself with what is not its own: when
// the platform bears a part of the request at least, by a plan, by credit that
// nobody paid for, by a shortfall, or because the work came late. Credit that
// was paid for is the owner's to spend where it likes.
func (b Snapshot) held(h Hold, line Line) Rule {
	rule, related := b.Related[Pair{line.Account, line.Event.Provider}]
	if !related || line.Payout <= 0 {
		return ""
	}
	bears := line.Source == Orphan || line.Shortfall > 0
	switch h.Billing {
	case hold.Plan:
		bears = true
	case hold.PayAsYouGo:
		bears = bears || b.GrantedCredit[line.Account]
	case hold.Free: // pays nothing
	}
	if !bears {
		return ""
	}
	return rule
}

// PlanMonth returns the month in which a provider's plan held account the line is
// accrued, and "" for a line that no plan covers.
func (l Line) PlanMonth() string {
	if l.Source == Plan {
		return l.Event.Request.Day().Format("2006-01")
	}
	return ""
}
