package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries of plans.
const (
	PlanSold      EntryKind = "plan_sale"
	PlanRefunded  EntryKind = "plan_refund"
	PlanShared    EntryKind = "plan_share"
	PlanClosed    EntryKind = "plan_close"
	PlanLate      EntryKind = "plan_late"
	PlanForfeited EntryKind = "plan_forfeit"
	PlanUnclaimed EntryKind = "plan_unclaimed"
)

// PlanSale is line 11: a plan was bought or renewed, and its price joins the
// month's pool. Business id: the invoice.
func PlanSale(fact Fact, month Month, price money.NanoUSD) (Entry, error) {
	if err := positive("price", price); err != nil {
		return Entry{}, fmt.Errorf("plan sale: %w", err)
	}
	return compose(PlanSold, fact, debit(CardClearing, nobody, price), credit(PlanPool, nobody, price).in(string(month)))
}

// PlanRefund is line 11 undone: a plan's price is refunded. It comes from the pool of its
// month while that is open, and else from the platform. Business id: the processor's
// refund.
func PlanRefund(fact Fact, month Month, open bool, amount money.NanoUSD) (Entry, error) {
	if err := positive("amount", amount); err != nil {
		return Entry{}, fmt.Errorf("plan refund: %w", err)
	}
	from := debit(Goodwill, nobody, amount)
	if open {
		from = debit(PlanPool, nobody, amount).in(string(month))
	}
	return compose(PlanRefunded, fact, from, credit(CardClearing, nobody, amount))
}

// Share is what a provider has earned by the plans of a month.
type Share struct {
	Provider ids.ProviderID
	// Earned is all of it, and Paid its part of the pool.
	Earned, Paid money.NanoUSD
	// Withheld is how much of it is held for a person to look at, and WithheldPaid the part
	// of the pool that waits for that.
	Withheld, WithheldPaid money.NanoUSD
	// Owed is what the provider owes. It is taken from what is paid at once.
	Owed money.NanoUSD
}

// withhold divides what is paid of a share into what is paid at once, rounded down, and
// what waits.
func (s Share) withhold() (Share, error) {
	if s.Withheld < 0 || s.Withheld > s.Earned || s.Owed < 0 {
		return s, fmt.Errorf("provider %s: of %d, %d cannot be held", s.Provider, s.Earned, s.Withheld)
	}
	s.WithheldPaid = s.Paid - part(s.Paid, s.Earned-s.Withheld, s.Earned)
	return s, nil
}

// Withheld is what waits of a share after the close of its month.
type Withheld struct {
	// Earned is what is still held, and Paid the part of the pool that waits for it.
	Earned, Paid money.NanoUSD
}

// End returns the part of the pool that belongs to earnings that are released or forfeited,
// rounded down, and what waits then. The last earnings have the rest.
func (w Withheld) End(earned money.NanoUSD) (paid money.NanoUSD, rest Withheld, err error) {
	if earned <= 0 || earned > w.Earned || w.Paid < 0 || w.Paid > w.Earned {
		return 0, w, fmt.Errorf("of %d that are held, %d cannot end", w.Earned, earned)
	}
	paid = part(w.Paid, earned, w.Earned)
	return paid, Withheld{w.Earned - earned, w.Paid - paid}, nil
}

// part returns amount·n÷of, rounded down; all of them are not negative, and of is above 0
// and not below n.
func part(amount, n, of money.NanoUSD) money.NanoUSD {
	hi, lo := bits.Mul64(uint64(amount), uint64(n))
	quotient, _ := bits.Div64(hi, lo, uint64(of))
	return money.NanoUSD(quotient)
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
		if err := positive("share", s.Earned); err != nil {
			return nil, fmt.Errorf("provider %s: %w", s.Provider, err)
		}
		if s.Provider.IsZero() || i > 0 && s.Provider == out[i-1].Provider {
			return nil, fmt.Errorf("provider %s is missing or there twice", s.Provider)
		}
		if total += s.Earned; total > MaxAmount {
			return nil, money.ErrOverflow
		}
	}
	if err := notNegative("pool", pool); err != nil {
		return nil, err
	}
	if total <= pool {
		for i := range out {
			out[i].Paid = out[i].Earned
		}
		return withheld(out)
	}
	remainders := make([]uint64, len(out))
	left := pool
	for i := range out {
		hi, lo := bits.Mul64(uint64(out[i].Earned), uint64(pool))
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
	return withheld(out)
}

func withheld(shares []Share) ([]Share, error) {
	for i := range shares {
		var err error
		if shares[i], err = shares[i].withhold(); err != nil {
			return nil, err
		}
	}
	return shares, nil
}

// PlanClose is lines 13 and 14. The month's pool pays what providers earned by
// its plans, divided by DividePool, and the rest of the pool is revenue. Every
// provider has an entry of its own, so that a month may have any number of
// providers; a provider of whom everything is held has none yet. The last entry is the
// pool's; a pool of zero has none. All entries are posted in one transaction. newID makes
// their ids. Business ids: the month and the provider, and the month alone for the pool's
// entry.
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
		total += s.Earned
		free := s.Earned - s.Withheld
		if free == 0 {
			continue
		}
		if err := add(PlanShared, string(month)+"/"+s.Provider.String(),
			shared(s.Provider, month, free, s.Paid-s.WithheldPaid, s.Owed)...); err != nil {
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

// shared returns the legs by which a part of a provider's earnings of a month is paid, less
// what the provider owes.
func shared(provider ids.ProviderID, month Month, earned, paid, owed money.NanoUSD) []Posting {
	taken := min(owed, paid)
	return []Posting{
		debit(PlanHeld, provider, earned).in(string(month)),
		credit(ProviderReceivable, provider, taken),
		credit(Payable, provider, paid-taken),
		credit(PlanAccrual, nobody, earned-paid).in(string(month)),
	}
}

// PlanShare is line 14 for earnings that were held when their month was closed and are
// released: earned of them, of which paid is their part of the pool. Business id: month,
// provider, "held" and the request that earned them.
func PlanShare(fact Fact, provider ids.ProviderID, month Month, earned, paid, owed money.NanoUSD) (Entry, error) {
	err := errors.Join(positive("earnings", earned), notNegative("part of the pool", paid), notNegative("debt", owed),
		notNegative("rest", earned-paid))
	if err != nil {
		return Entry{}, fmt.Errorf("plan share: %w", err)
	}
	return compose(PlanShared, fact, shared(provider, month, earned, paid, owed)...)
}

// PlanLateShare is line 12 after the close of its month: what a provider earned by a plan's
// request that was settled late is paid whole, at the platform's cost. Business id: month,
// provider and the day on which it was settled.
func PlanLateShare(fact Fact, provider ids.ProviderID, month Month, amount, owed money.NanoUSD) (Entry, error) {
	if err := errors.Join(positive("amount", amount), notNegative("debt", owed)); err != nil {
		return Entry{}, fmt.Errorf("late plan share: %w", err)
	}
	taken := min(owed, amount)
	return compose(PlanLate, fact,
		debit(PlanHeld, provider, amount).in(string(month)),
		debit(OrphanWork, nobody, amount),
		credit(ProviderReceivable, provider, taken),
		credit(Payable, provider, amount-taken),
		credit(PlanAccrual, nobody, amount).in(string(month)))
}

// PlanUnclaim follows line 25 after the close of its month: the part of the pool that
// waited for forfeited earnings is revenue. Business id: that of PlanForfeit.
func PlanUnclaim(fact Fact, month Month, amount money.NanoUSD) (Entry, error) {
	return move(PlanUnclaimed, fact, amount, Account{Kind: PlanAccrual, Book: string(month)}, Account{Kind: PlanRevenue})
}

// PlanForfeit is line 25: a provider loses what it had earned by the plans of a month. While
// the month is open, the shares of the others rise. Business id: that of PlanShare for what an
// operator forfeits of held earnings, else the penalty and the month.
func PlanForfeit(fact Fact, provider ids.ProviderID, month Month, amount money.NanoUSD) (Entry, error) {
	if err := positive("amount", amount); err != nil {
		return Entry{}, fmt.Errorf("plan forfeit: %w", err)
	}
	return compose(PlanForfeited, fact,
		debit(PlanHeld, provider, amount).in(string(month)), credit(PlanAccrual, nobody, amount).in(string(month)))
}
