// Package slash carries out penalties: it fixes what a penalty takes of each position and of what was paid by card, and
// moves each part through escrow to its end (settlement design, section 7; decisions, "Ladder" and "Penalty").
//
// Amounts are fixed at the verdict and do not follow prices. A part on a chain is a penalty of the contract under
// an id of its own, and its state is what final events say. A part by card is two postings of the ledger: into
// escrow at once, and out of it at the end.
//
// The penalty decides how its parts end. The later of both clocks counts: a penalty that nobody appeals is not
// executed before each part's time to appeal is over on its chain, and an appeal of a depositor on the chain is an
// appeal of the penalty. An appeal, or a reversal by an operator, is passed on to the contract at once, so that
// nobody's clock runs on.
package slash

import (
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
)

// Cent is the unit of parts by card, because cards move cents.
const Cent = money.NanoUSD(10_000_000)

// Part is what a penalty takes of one position, or of what was paid by card.
type Part struct {
	ID       contract.Word
	Penalty  penalty.ID
	Provider ids.ProviderID
	// Chain is 0 by card.
	Chain     chain.ID
	Depositor chain.Address
	// Amount is in the token's smallest unit, and Units what the books have of it.
	Amount chain.Amount
	Units  int64
	// Card is the amount by card.
	Card  money.NanoUSD
	State State
	// AppealUntil and LapsesAt are the contract's times. They are zero until it has told them.
	AppealUntil, LapsesAt time.Time
	// Action and Attempt name the call that was sent last; Attempt counts the calls of one action from 1.
	Action  Action
	Attempt int
}

// ByCard reports whether the part is of what was paid by card.
func (p Part) ByCard() bool { return p.Chain == 0 }

// Divide returns the parts of a penalty of a share, in parts of 10,000, of what stands behind a provider.
//
// The share is of all that is there, in escrow too, because the shares of penalties that stand at once are parts of one
// whole. Each part is rounded down to a unit of the books. What is left of the share of all positions in one token goes
// to the largest of them. No part is more than is free, and a part of nothing is left out.
func Divide(d penalty.Draft, rules []position.Rules, h position.Holdings, escrow money.NanoUSD) []Part {
	var parts []Part
	for _, r := range rules {
		parts = append(parts, onChain(d, r, h.Positions)...)
	}
	share := (h.Card.Free + escrow) / penalty.Whole * money.NanoUSD(d.ShareBasisPoints)
	share += (h.Card.Free + escrow) % penalty.Whole * money.NanoUSD(d.ShareBasisPoints) / penalty.Whole
	if card := min(share, h.Card.Free) / Cent * Cent; card > 0 {
		parts = append(parts, Part{ID: contract.CardPartID(d.ID), Penalty: d.ID, Provider: d.ProviderID, Card: card,
			State: Opened})
	}
	return parts
}

func onChain(d penalty.Draft, r position.Rules, all []position.Position) []Part {
	var mine []position.Position
	var whole chain.Amount
	for _, p := range all {
		if p.Chain == r.Chain {
			mine = append(mine, p)
			whole, _ = whole.Add(p.Total()) // all positions of a contract are below 2^128 together
		}
	}
	slices.SortFunc(mine, func(a, b position.Position) int {
		if c := b.Total().Cmp(a.Total()); c != 0 {
			return c
		}
		return slices.Compare(a.Depositor[:], b.Depositor[:])
	})
	taken := make([]int64, len(mine))
	rest := share(whole, d.ShareBasisPoints, r)
	for i, p := range mine {
		taken[i] = share(p.Total(), d.ShareBasisPoints, r)
		rest -= taken[i]
	}
	var parts []Part
	for i, p := range mine {
		units := taken[i]
		if i == 0 {
			units += rest
		}
		free, _, ok := p.Free.Units(r.Asset.Decimals)
		if units = min(units, free); !ok || units <= 0 {
			continue
		}
		amount, _ := chain.AmountOfUnits(units, r.Asset.Decimals) // they are positive
		subject := contract.Subject(d.ProviderID)
		parts = append(parts, Part{ID: contract.PartID(d.ID, r.Chain, subject, p.Depositor), Penalty: d.ID,
			Provider: d.ProviderID, Chain: r.Chain, Depositor: p.Depositor, Amount: amount, Units: units, State: Opened})
	}
	return parts
}

// share returns a share of an amount in units of the books, rounded down.
func share(of chain.Amount, basisPoints int32, r position.Rules) int64 {
	part, ok := of.MulDiv(uint64(basisPoints), penalty.Whole)
	units, _, fits := part.Units(r.Asset.Decimals)
	if !ok || !fits {
		return 0 // the books cannot count it, and so they have nothing of it
	}
	return units
}
