package sending

import "svc.internal/services/settlement/internal/chain"

// A chain's nodes take a transaction in another's place when both of its fees are at least a tenth above. Settlement
// raises them by an eighth.
const (
	bumpNumerator   = 9
	bumpDenominator = 8
)

// firstFees returns what the first transaction of a call offers: what the chain suggests, at most the bound.
func firstFees(suggested chain.Fees, bound chain.Amount) chain.Fees {
	return chain.Fees{Max: lower(suggested.Max, bound), Tip: lower(suggested.Tip, lower(suggested.Max, bound))}
}

// raised returns the fees of the next transaction of a call: an eighth above the last ones, or what the chain
// suggests where that is more. ok is false where that would be above the bound.
func raised(last, suggested chain.Fees, bound chain.Amount) (next chain.Fees, ok bool) {
	highest, fine := eighthMore(last.Max)
	tip, also := eighthMore(last.Tip)
	if !fine || !also || highest.Cmp(bound) > 0 {
		return chain.Fees{}, false
	}
	highest = higher(highest, lower(suggested.Max, bound))
	return chain.Fees{Max: highest, Tip: lower(higher(tip, suggested.Tip), highest)}, true
}

// eighthMore returns an amount and an eighth of it, rounded up.
func eighthMore(a chain.Amount) (chain.Amount, bool) {
	more, ok := a.MulDiv(bumpNumerator, bumpDenominator)
	if !ok {
		return chain.Amount{}, false
	}
	return more.Add(chain.NewAmount(1))
}

func lower(a, b chain.Amount) chain.Amount {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func higher(a, b chain.Amount) chain.Amount {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}
