package ledger

import (
	"errors"
	"fmt"
	"strconv"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries by which collateral by card comes back to its provider, or is owed to it
// again.
const (
	CollateralRefundUndone EntryKind = "collateral_refund_undone"
	CollateralDisputeWon   EntryKind = "collateral_dispute_won"
	CollateralRefundFailed EntryKind = "collateral_refund_failed"
)

// CardBacking is what the books have of a provider before something comes back to its
// collateral by card.
type CardBacking struct {
	// Room is what of the card payments has not gone back, less what is collateral, in escrow,
	// or waits to be refunded. It is below zero where payments went back that were no longer
	// collateral, for which the provider was made to owe.
	Room money.NanoUSD
	// Owed is what the provider owes.
	Owed money.NanoUSD
}

// divide returns the legs of a part of what comes back. It is collateral as far as there is
// room, which grows by all that comes back. The rest stood behind a payment that went back
// meanwhile: so it ends what is owed for that. Where earnings have paid that debt already, it
// is earnings again.
func (b CardBacking) divide(provider ids.ProviderID, part, all money.NanoUSD) []Posting {
	again := min(part, max(0, b.Room+all))
	debt := min(part-again, max(0, b.Owed))
	return []Posting{
		credit(Collateral, provider, again),
		credit(ProviderReceivable, provider, debt),
		credit(Payable, provider, part-again-debt),
	}
}

// SlashAppealWon is the other end of line 24: the provider gets its collateral back.
// Business id: the penalty.
func SlashAppealWon(fact Fact, provider ids.ProviderID, amount money.NanoUSD, has CardBacking) (Entry, error) {
	if err := positive("amount", amount); err != nil {
		return Entry{}, fmt.Errorf("slash won: %w", err)
	}
	legs := append(has.divide(provider, amount, amount), debit(SlashEscrow, provider, amount))
	return compose(SlashAppealed, fact, legs...)
}

// CollateralRefundUndo is the other end of line 26: nothing is refunded, because the card's
// owner has the money back by another way. Business id: the refund.
func CollateralRefundUndo(fact Fact, provider ids.ProviderID, amount money.NanoUSD, has CardBacking) (Entry, error) {
	if err := positive("amount", amount); err != nil {
		return Entry{}, fmt.Errorf("undone refund of collateral: %w", err)
	}
	return compose(CollateralRefundUndone, fact,
		append(has.divide(provider, amount, amount), debit(CollateralRefundPending, provider, amount))...)
}

// RefundKey names an attempt to refund collateral by card: the refund, followed by the number of
// the attempt from the second on. The function refund_key of the database is the same.
func RefundKey(refund string, attempt int) string {
	if attempt <= 1 {
		return refund
	}
	return refund + "/" + strconv.Itoa(attempt)
}

// CollateralRefundFail follows an end of line 26: the card did not take what was paid for an
// attempt, the card processor has it again, and it is owed again. Business id: the key of the
// attempt, as of the payment.
func CollateralRefundFail(fact Fact, provider ids.ProviderID, amount money.NanoUSD) (Entry, error) {
	return move(CollateralRefundFailed, fact, amount, Account{Kind: CardClearing},
		Account{Kind: CollateralRefundPending, Owner: provider})
}

// CardCollateralWin follows a reversal of line 23: the card processor gives amount back,
// because the dispute was won. It ends what the reversal made the provider owe, as far as
// that is owed still. The rest comes back as the collateral that was taken. Business id: the
// dispute.
func CardCollateralWin(
	fact Fact, provider ids.ProviderID, amount, made money.NanoUSD, has CardBacking,
) (Entry, error) {
	err := errors.Join(positive("amount", amount), notNegative("debt", made), notNegative("rest", amount-made))
	if err != nil {
		return Entry{}, fmt.Errorf("collateral dispute: %w", err)
	}
	debt := min(made, max(0, has.Owed))
	has.Owed -= debt
	legs := has.divide(provider, amount-debt, amount)
	for i := range legs {
		if legs[i].Account.Kind == ProviderReceivable {
			legs[i].Amount += debt
		}
	}
	return compose(CollateralDisputeWon, fact, append(legs, debit(CardClearing, nobody, amount))...)
}
