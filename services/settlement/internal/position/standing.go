package position

import (
	"math/big"
	"slices"

	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/collateral"
)

// Card is what a provider has paid by card.
type Card struct {
	// Free is what no penalty has set aside and no refund takes.
	Free money.NanoUSD
	// Owed is what the provider owes, for example because more was charged back than was there.
	Owed money.NanoUSD
	// Reversed reports whether a payment went back to the card's owner, and that is not made good.
	Reversed bool
	// Stale reports whether the ledger may say something else by now.
	Stale bool
}

// Holdings are all that stands behind a provider.
type Holdings struct {
	// Positions are those that count: see MaxCounted.
	Positions []Position
	Card      Card
	// Choice is the settlement chain that the provider chose; 0 for none.
	Choice chain.ID
	// Refunding reports whether a refund is open.
	Refunding bool
}

// Assessment is what follows from holdings.
type Assessment struct {
	Confirmed bool
	// Source is empty where nothing is confirmed.
	Source collateral.Source
	// Chains are those on which the collateral is confirmed, in the order of the rules.
	Chains []chain.ID
	// Settlement is the settlement chain; 0: it stays what it is.
	Settlement chain.ID
	// Causes are those for which the provider is suspended.
	Causes []collateral.Cause
	// Reversed is Card.Reversed from now on.
	Reversed bool
}

// Assess returns what follows from holdings.
//
// Collateral is confirmed on one chain by itself, or by card, as long as enough of it is free. A depositor who leaves
// (exit) suspends the provider if without that position nothing is confirmed: otherwise a stranger could suspend a
// provider by putting something behind it and leaving. A payment by card that went back suspends the provider until it
// owes nothing and its collateral is confirmed without the payment.
func (t Terms) Assess(h Holdings) Assessment {
	var s Assessment
	byCard := t.Card.Available && h.Card.Free >= t.Card.Minimum && t.Card.Minimum > 0
	staying := byCard
	best := chain.ID(0)
	var highest, of chain.Amount
	for _, r := range t.Chains {
		free, remains := sums(h.Positions, r.Chain)
		if free.Cmp(r.Minimum) < 0 {
			continue
		}
		s.Chains = append(s.Chains, r.Chain)
		staying = staying || remains.Cmp(r.Minimum) >= 0
		if best == 0 || larger(free, r.Minimum, highest, of) {
			best, highest, of = r.Chain, free, r.Minimum
		}
	}
	s.Confirmed = len(s.Chains) > 0 || byCard
	switch {
	case len(s.Chains) > 0:
		s.Source, s.Settlement = collateral.FromContract, best
		if slices.Contains(s.Chains, h.Choice) {
			s.Settlement = h.Choice
		}
	case byCard:
		s.Source, s.Settlement = collateral.FromCard, chain.Default
	}
	s.Reversed = h.Card.Reversed && (h.Card.Stale || h.Card.Owed > 0 || !s.Confirmed)
	for _, c := range []struct {
		holds bool
		cause collateral.Cause
	}{
		{h.Refunding, collateral.Refund}, {s.Reversed, collateral.CardReversed},
		{s.Confirmed && !staying, collateral.Exit},
	} {
		if c.holds {
			s.Causes = append(s.Causes, c.cause)
		}
	}
	return s
}

// sums returns what is free on a chain, and what of it no depositor has asked for.
func sums(all []Position, on chain.ID) (free, staying chain.Amount) {
	for _, p := range all {
		if p.Chain != on {
			continue
		}
		free, _ = free.Add(p.Free) // all positions of a contract are below 2^128 together
		if p.ExitAt.IsZero() {
			staying, _ = staying.Add(p.Free)
		}
	}
	return free, staying
}

// larger reports whether a of a minimum is more than b of another, as multiples of the minimums: so amounts of
// different tokens are compared without prices.
func larger(a, minimum, b, other chain.Amount) bool {
	return product(a, other).Cmp(product(b, minimum)) > 0
}

func product(a, b chain.Amount) *big.Int {
	left, right := a.Bytes(), b.Bytes()
	return new(big.Int).Mul(new(big.Int).SetBytes(left[:]), new(big.Int).SetBytes(right[:]))
}

// Terms are on which collateral is taken.
type Terms struct {
	Chains []Rules
	Card   CardRules
}

// Of returns the rules of a chain.
func (t Terms) Of(id chain.ID) (Rules, bool) {
	i := slices.IndexFunc(t.Chains, func(r Rules) bool { return r.Chain == id })
	if i < 0 {
		return Rules{}, false
	}
	return t.Chains[i], true
}
