package ledger

import (
	"bytes"
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries of plans.
const (
	PlanSold      EntryKind = "plan_sale"
	PlanShared    EntryKind = "plan_share"
	PlanClosed    EntryKind = "plan_close"
	PlanForfeited EntryKind = "plan_forfeit"
)

// PlanSale is line 11: a plan was bought or renewed, and its price joins the
// month's pool. Business id: the invoice.
func PlanSale(fact Fact, month Month, price money.NanoUSD) (Entry, error) {
	if err := positive("price", price); err != nil {
		return Entry{}, fmt.Errorf("plan sale: %w", err)
	}
	return compose(PlanSold, fact, debit(CardClearing, nobody, price), credit(PlanPool, nobody, price).in(string(month)))
}

// Share is what a provider has earned by the plans of a month, and the part of it that is
// paid.
type Share struct {
	Provider   ids.ProviderID
	Held, Paid money.NanoUSD
}

// DividePool sets what each provider is paid, and returns the shares by provider id.
// While the pool covers the earnings, each provider is paid all of them. Otherwise each
// is paid floor(held·pool/total). The remaining nano-USD go one each to the largest
// remainders, and of equal remainders to the smaller provider id. So exactly the pool is
// paid, in whatever order the shares are given.
func DividePool(pool money.NanoUSD, shares []Share) ([]Share, error) {
	out := slices.Clone(shares)
	slices.SortFunc(out, func(a, b Share) int { return bytes.Compare(a.Provider[:], b.Provider[:]) })
	var total money.NanoUSD
	for i, s := range out {
		if err := positive("share", s.Held); err != nil {
			return nil, fmt.Errorf("provider %s: %w", s.Provider, err)
		}
		if s.Provider.IsZero() || i > 0 && s.Provider == out[i-1].Provider {
			return nil, fmt.Errorf("provider %s is missing or there twice", s.Provider)
		}
		if total += s.Held; total > MaxAmount {
			return nil, money.ErrOverflow
		}
	}
	if err := notNegative("pool", pool); err != nil {
		return nil, err
	}
	if total <= pool {
		for i := range out {
			out[i].Paid = out[i].Held
		}
		return out, nil
	}
	remainders := make([]uint64, len(out))
	left := pool
	for i := range out {
		hi, lo := bits.Mul64(uint64(out[i].Held), uint64(pool))
		quotient, remainder := bits.Div64(hi, lo, uint64(total))
		out[i].Paid, remainders[i] = money.NanoUSD(quotient), remainder
		left -= out[i].Paid
	}
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	for _, i := range order[:left] {
		out[i].Paid++
	}
	return out, nil
}

// PlanClose is lines 13 and 14. The month's pool pays what providers earned by
// its plans, divided by DividePool, and the rest of the pool is revenue. Every
// provider has an entry of its own, so that a month may have any number of
// providers. The last entry is the pool's; a pool of zero has none. All
// entries are posted in one transaction. newID makes their ids. Business ids:
// the month and the provider, and the month alone for the pool's entry.
func PlanClose(newID func() (ids.EntryID, error), month Month, pool money.NanoUSD, shares []Share) ([]Entry, error) {
	divided, err := DividePool(pool, shares)
	if err != nil {
		return nil, fmt.Errorf("close %s: %w", month, err)
	}
	var entries []Entry
	add := func(kind EntryKind, businessID string, legs ...Posting) error {
		id, err := newID()
		if err != nil {
			return fmt.Errorf("make an entry id: %w", err)
		}
		e, err := compose(kind, Fact{ID: id, BusinessID: businessID}, legs...)
		entries = append(entries, e)
		return err
	}
	var total money.NanoUSD
	for _, s := range divided {
		total += s.Held
		if err := add(PlanShared, string(month)+"/"+s.Provider.String(),
			debit(PlanHeld, s.Provider, s.Held).in(string(month)),
			credit(Payable, s.Provider, s.Paid),
			credit(PlanAccrual, nobody, s.Held-s.Paid).in(string(month))); err != nil {
			return nil, err
		}
	}
	if pool == 0 {
		return entries, nil
	}
	paid := min(total, pool)
	err = add(PlanClosed, string(month),
		debit(PlanPool, nobody, pool).in(string(month)),
		credit(PlanAccrual, nobody, paid).in(string(month)),
		credit(PlanRevenue, nobody, pool-paid))
	return entries, err
}

// PlanForfeit is line 25: a provider loses what it had earned by the plans of a
// month, and the shares of the others rise. Business id: the penalty and the
// month.
func PlanForfeit(fact Fact, provider ids.ProviderID, month Month, amount money.NanoUSD) (Entry, error) {
	if err := positive("amount", amount); err != nil {
		return Entry{}, fmt.Errorf("plan forfeit: %w", err)
	}
	return compose(PlanForfeited, fact,
		debit(PlanHeld, provider, amount).in(string(month)), credit(PlanAccrual, nobody, amount).in(string(month)))
}
