package usage

import (
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/kin"
)

// Rule says how it is known that an account and a provider have one owner: SameUser, or the
// cause by which they are kin (package kin). The view kin has the pairs with their rules.
type Rule string

// SameUser ties the account and the provider of one user, who signs in to both.
const SameUser Rule = "same_user"

// Rules returns every rule, the surest first.
func Rules() []Rule {
	rules := []Rule{SameUser}
	for _, cause := range kin.Causes() {
		rules = append(rules, Rule(cause))
	}
	return rules
}

// Surest returns the surer of two rules by which one pair is known. An empty one is none.
func Surest(a, b Rule) Rule {
	rules := Rules()
	if a == "" || b != "" && slices.Index(rules, b) < slices.Index(rules, a) {
		return b
	}
	return a
}

// Pair is an account and a provider that may serve its requests.
type Pair struct {
	Account  ids.AccountID
	Provider ids.ProviderID
}

// held returns the rule by which a line's payout is held back, empty for nearly all
// lines.
//
// A payout is held when an owner pays itself with money that is not its own, because the
// platform bears a part of the request: by a plan, by a shortfall, by a discount, as orphan work, or by
// credit of an account that ever had any for which nobody paid (a bonus, a grant,
// goodwill). Credit that was paid for is the owner's to spend where it likes. A request
// that was settled before it was known that account and provider have one owner is not held.
//
// A held payout is accrued like any other and stays in its balance. No entry takes it
// from there until it ends (see store.keepHeld), so the held payouts of a month must end
// before the month is closed.
func (b Snapshot) held(h Hold, line Line) Rule {
	rule, related := b.Related[Pair{line.Account, line.Event.Provider}]
	if !related || line.Payout <= 0 || line.Event.Vendor {
		return ""
	}
	bears := line.Source == Orphan || line.Shortfall > 0 || line.Discount > 0
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
