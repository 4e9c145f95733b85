package ledger

import "slices"

// divided are the pairs of accounts among which the books divide an amount when an entry is
// posted: what is owed is taken first, and what cannot be taken is owed.
var divided = map[EntryKind][2]AccountKind{
	EarningsBatched:     {Payable, ProviderReceivable},
	PlanShared:          {Payable, ProviderReceivable},
	PlanLate:            {Payable, ProviderReceivable},
	CardReversed:        {Available, ConsumerReceivable},
	DepositReversed:     {Available, ConsumerReceivable},
	CardCollateralTaken: {Collateral, ProviderReceivable},
}

// Repeats reports whether the entry states the same fact as the first entry of its kind and
// business id. How the books divided an amount then is no part of the fact.
func (e Entry) Repeats(first Entry) bool {
	return e.Kind == first.Kind && e.BusinessID == first.BusinessID && e.Reverses == first.Reverses &&
		slices.Equal(e.stated(), first.stated())
}

// stated returns the legs with what the books divided put together again.
func (e Entry) stated() []Posting {
	pair, ok := divided[e.Kind]
	if !ok {
		return e.Postings
	}
	var legs []Posting
	var whole *Posting
	for _, p := range e.Postings {
		if p.Account.Kind == pair[1] {
			p.Account.Kind = pair[0]
		}
		switch {
		case p.Account.Kind != pair[0]:
			legs = append(legs, p)
		case whole == nil:
			whole = &p
		default:
			whole.Amount += p.Amount
		}
	}
	if whole != nil {
		legs = append(legs, *whole)
	}
	return legs
}
