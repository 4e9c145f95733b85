package ledger

import (
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries of collateral.
const (
	CardCollateralPaid    EntryKind = "collateral_card"
	CardCollateralTaken   EntryKind = "collateral_card_reversed"
	CollateralSlashed     EntryKind = "slash"
	SlashForfeited        EntryKind = "slash_forfeit"
	SlashAppealed         EntryKind = "slash_appeal_won"
	ChainSlashed          EntryKind = "slash_chain"
	CollateralRefundAsked EntryKind = "collateral_refund"
	CollateralRefundPaid  EntryKind = "collateral_refund_paid"
	CustodyTaken          EntryKind = "custody_in"
	CustodyReturned       EntryKind = "custody_out"
)

// CardCollateral is line 23: a provider paid collateral by card. Business id:
// the processor's session.
func CardCollateral(fact Fact, provider ids.ProviderID, amount money.NanoUSD) (Entry, error) {
	return move(CardCollateralPaid, fact, amount, Account{Kind: CardClearing}, Account{Kind: Collateral, Owner: provider})
}

// CardCollateralReversal follows line 23: the card's owner got amount back. It is taken
// from the provider's collateral, at most what is there, and the provider owes the rest.
// Business id: the processor's refund or dispute.
func CardCollateralReversal(fact Fact, provider ids.ProviderID, amount, there money.NanoUSD) (Entry, error) {
	if err := errors.Join(positive("amount", amount), notNegative("collateral", there)); err != nil {
		return Entry{}, fmt.Errorf("card collateral reversal: %w", err)
	}
	taken := min(there, amount)
	return compose(CardCollateralTaken, fact,
		debit(Collateral, provider, taken),
		debit(ProviderReceivable, provider, amount-taken),
		credit(CardClearing, nobody, amount))
}

// Slash is line 24: collateral of a provider is taken and waits for an appeal.
// Business id: the penalty.
func Slash(fact Fact, provider ids.ProviderID, amount money.NanoUSD) (Entry, error) {
	return move(CollateralSlashed, fact, amount, Account{Kind: Collateral, Owner: provider},
		Account{Kind: SlashEscrow, Owner: provider})
}

// SlashedPercent returns what a slash of a percentage takes of a provider's collateral,
// rounded down.
func SlashedPercent(collateral money.NanoUSD, share int) (money.NanoUSD, error) {
	if share <= 0 || share > 100 {
		return 0, fmt.Errorf("a slash of %d %% is out of range", share)
	}
	if err := notNegative("collateral", collateral); err != nil {
		return 0, err
	}
	return percent(collateral, uint64(share)), nil
}

// Compensation is the part of a slash that a consumer gets.
type Compensation struct {
	Account ids.AccountID
	Amount  money.NanoUSD
}

// maxCompensated bounds the consumers of one forfeit by the legs of an entry: on a chain
// four others.
const maxCompensated = MaxLegs - 4

// SlashForfeit is the end of line 24 without an appeal: each affected consumer, at most
// 12 of them, gets its compensation of the slash, and the platform the rest. Business id:
// the penalty.
func SlashForfeit(fact Fact, provider ids.ProviderID, amount money.NanoUSD, affected []Compensation) (Entry, error) {
	if err := positive("amount", amount); err != nil {
		return Entry{}, fmt.Errorf("slash forfeit: %w", err)
	}
	legs, err := compensate(amount, affected)
	if err != nil {
		return Entry{}, fmt.Errorf("slash forfeit: %w", err)
	}
	return compose(SlashForfeited, fact, append(legs, debit(SlashEscrow, provider, amount))...)
}

// ChainSlash is line 24 on a chain: forfeited tokens of a collateral contract came to the
// treasury. Each affected consumer, at most 12 of them, gets its compensation of their
// value, and the platform the rest. Business id: the penalty, the chain and the depositor.
func ChainSlash(fact Fact, of Sum, affected []Compensation) (Entry, error) {
	_, even, err := of.value()
	if err != nil {
		return Entry{}, fmt.Errorf("slash on a chain: %w", err)
	}
	legs, err := compensate(even, affected)
	if err != nil {
		return Entry{}, fmt.Errorf("slash on a chain: %w", err)
	}
	return of.entry(ChainSlashed, fact, append(legs, of.received(even)...)...)
}

// compensate returns the legs of what consumers get of an amount, and of the platform's
// rest.
func compensate(amount money.NanoUSD, affected []Compensation) ([]Posting, error) {
	if len(affected) > maxCompensated {
		return nil, fmt.Errorf("%d consumers are more than %d", len(affected), maxCompensated)
	}
	var legs []Posting
	var err error
	rest := amount
	for _, c := range affected {
		err = errors.Join(err, positive("compensation", c.Amount))
		rest -= c.Amount
		legs = append(legs, credit(Available, c.Account, c.Amount))
	}
	err = errors.Join(err, notNegative("rest", rest))
	return append(legs, credit(SlashRevenue, nobody, rest)), err
}

// CollateralRefund begins line 26: a provider asks for its collateral.
// Business id: the refund.
func CollateralRefund(fact Fact, provider ids.ProviderID, amount money.NanoUSD) (Entry, error) {
	return move(CollateralRefundAsked, fact, amount,
		Account{Kind: Collateral, Owner: provider}, Account{Kind: CollateralRefundPending, Owner: provider})
}

// CollateralRefunded is an end of line 26, after the wait; CollateralRefundUndo is the other. from
// is the account that paid it, CardClearing or Bank. Business id: the key of the attempt, which is
// RefundKey.
func CollateralRefunded(fact Fact, provider ids.ProviderID, from AccountKind, amount money.NanoUSD) (Entry, error) {
	if from != CardClearing && from != Bank {
		return Entry{}, fmt.Errorf("%s: nothing is refunded from %s", CollateralRefundPaid, from)
	}
	return move(CollateralRefundPaid, fact, amount, Account{Kind: CollateralRefundPending, Owner: provider},
		Account{Kind: from})
}

// CustodyIn counts tokens of a provider that came into a collateral contract,
// which the platform does not hold. Business id: chain, transaction and log
// index.
func CustodyIn(fact Fact, provider ids.ProviderID, token Token, units Units) (Entry, error) {
	return custody(CustodyTaken, fact, provider, token, units)
}

// CustodyOut counts tokens that left a collateral contract, refunded or
// slashed. Business id: chain, transaction and log index.
func CustodyOut(fact Fact, provider ids.ProviderID, token Token, units Units) (Entry, error) {
	return custody(CustodyReturned, fact, provider, token, -units)
}

func custody(kind EntryKind, fact Fact, provider ids.ProviderID, token Token, units Units) (Entry, error) {
	if (kind == CustodyTaken) != (units > 0) {
		return Entry{}, fmt.Errorf("%s: the units are out of range", kind)
	}
	return compose(kind, fact,
		debit(Custody, nobody, money.NanoUSD(units)).in(string(token.Chain())).tokens(token),
		credit(CollateralTokens, provider, money.NanoUSD(units)).tokens(token))
}
