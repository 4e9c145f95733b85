package ledger

import (
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries of card payments.
const (
	CardTopUpPaid     EntryKind = "card_topup"
	CardProcessorCost EntryKind = "card_cost"
	CardReversed      EntryKind = "card_reversed"
	CardDebtPaid      EntryKind = "card_debt_paid"
	CardDebtLost      EntryKind = "card_debt_lost"
	CardDisputeWon    EntryKind = "card_dispute_won"
	CardPaidOut       EntryKind = "card_paid_out"
)

// CardTopUp is line 1: a consumer paid amount, and the fee that it was shown, by card.
// Business id: the processor's event and session.
func CardTopUp(fact Fact, account ids.AccountID, amount, fee money.NanoUSD) (Entry, error) {
	if err := errors.Join(positive("amount", amount), notNegative("fee", fee)); err != nil {
		return Entry{}, fmt.Errorf("card top-up: %w", err)
	}
	return compose(CardTopUpPaid, fact,
		debit(CardClearing, nobody, amount+fee),
		credit(Available, account, amount),
		credit(CardFee, nobody, fee))
}

// CardCost is the other half of line 1: what the processor kept of a payment.
// Business id: its balance transaction.
func CardCost(fact Fact, cost money.NanoUSD) (Entry, error) {
	if err := positive("cost", cost); err != nil {
		return Entry{}, fmt.Errorf("card cost: %w", err)
	}
	return compose(CardProcessorCost, fact, debit(Processor, nobody, cost), credit(CardClearing, nobody, cost))
}

// CardReversal is line 22: the card's owner got amount back, by a refund or a dispute. It
// is taken from the consumer's credit, at most what no open hold has set aside. The
// consumer owes the rest. Business id: the processor's refund or dispute.
func CardReversal(fact Fact, account ids.AccountID, amount, unheld money.NanoUSD) (Entry, error) {
	if err := errors.Join(positive("amount", amount), notNegative("unheld", unheld)); err != nil {
		return Entry{}, fmt.Errorf("card reversal: %w", err)
	}
	taken := min(unheld, amount)
	return compose(CardReversed, fact,
		debit(Available, account, taken),
		debit(ConsumerReceivable, account, amount-taken),
		credit(CardClearing, nobody, amount))
}

// CardDebtPayment follows line 22: a consumer pays a part of its debt from its credit.
// Business id: the debt and the number of the payment.
func CardDebtPayment(fact Fact, account ids.AccountID, amount money.NanoUSD) (Entry, error) {
	return move(CardDebtPaid, fact, amount, Account{Kind: Available, Owner: account},
		Account{Kind: ConsumerReceivable, Owner: account})
}

// CardDebtLoss follows line 22: what a consumer owes will not be paid, and is the
// platform's loss. Business id: the debt.
func CardDebtLoss(fact Fact, account ids.AccountID, amount money.NanoUSD) (Entry, error) {
	return move(CardDebtLost, fact, amount, Account{Kind: Chargeback}, Account{Kind: ConsumerReceivable, Owner: account})
}

// CardDisputeWin follows line 22: the card processor gives amount back. It ends what the
// consumer still owes of it and what the platform had lost of it, and the rest is the
// consumer's credit again. Business id: the dispute.
func CardDisputeWin(fact Fact, account ids.AccountID, amount, owed, lost money.NanoUSD) (Entry, error) {
	err := errors.Join(positive("amount", amount), notNegative("debt", owed), notNegative("loss", lost))
	if err == nil {
		err = notNegative("rest", amount-owed-lost)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("card dispute: %w", err)
	}
	return compose(CardDisputeWon, fact,
		debit(CardClearing, nobody, amount),
		credit(ConsumerReceivable, account, owed),
		credit(Chargeback, nobody, lost),
		credit(Available, account, amount-owed-lost))
}

// CardPayOut is the card processor's transfer to the bank. Business id: its payout.
func CardPayOut(fact Fact, amount money.NanoUSD) (Entry, error) {
	return move(CardPaidOut, fact, amount, Account{Kind: Bank}, Account{Kind: CardClearing})
}
