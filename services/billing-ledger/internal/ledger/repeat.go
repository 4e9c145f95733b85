package ledger

import "slices"

// divided are the accounts among which the books divide an amount when an entry is posted:
// what is owed is taken first, what cannot be taken is owed, and what comes back to
// collateral is divided by CardBacking.
var divided = map[EntryKind][]AccountKind{
	EarningsBatched:        {Payable, ProviderReceivable},
	PlanShared:             {Payable, ProviderReceivable},
	PlanLate:               {Payable, ProviderReceivable},
	CardReversed:           {Available, ConsumerReceivable},
	DepositReversed:        {Available, ConsumerReceivable},
	CardCollateralTaken:    {Collateral, ProviderReceivable},
	CollateralDisputeWon:   {Collateral, ProviderReceivable, Payable},
	SlashAppealed:          {Collateral, ProviderReceivable, Payable},
	CollateralRefundUndone: {Collateral, ProviderReceivable, Payable},
}

// valued are the kinds whose tokens the books value at a price of the day: what a transaction cost,
// and what a penalty took on a chain.
var valued = []EntryKind{PayoutGas, ChainSlashed}

// Repeats reports whether the entry states the same fact as the first entry of its kind and
// business id. How the books divided an amount then is no part of the fact, and neither is the
// price at which they valued tokens: who forgot the price asks again at another. What
// consumers get of it is a part.
func (e Entry) Repeats(first Entry) bool {
	return e.Kind == first.Kind && e.BusinessID == first.BusinessID && e.Reverses == first.Reverses &&
		slices.Equal(e.stated(), first.stated())
}

// stated returns the legs with what the books divided put together again.
func (e Entry) stated() []Posting {
	if slices.Contains(valued, e.Kind) {
		return slices.DeleteFunc(slices.Clone(e.Postings), func(p Posting) bool {
			return p.Asset == USD && p.Account.Kind != Available
		})
	}
	among, ok := divided[e.Kind]
	if !ok {
		return e.Postings
	}
	var legs []Posting
	var whole *Posting
	for _, p := range e.Postings {
		if slices.Contains(among, p.Account.Kind) {
			p.Account.Kind = among[0]
		}
		switch {
		case p.Account.Kind != among[0]:
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
