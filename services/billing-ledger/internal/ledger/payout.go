package ledger

import (
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries by which providers are paid.
const (
	EarningsBatched  EntryKind = "earnings_batch"
	PayoutRequested  EntryKind = "payout_requested"
	PayoutConfirmed  EntryKind = "payout_confirmed"
	PayoutFailed     EntryKind = "payout_failed"
	EarningsCredited EntryKind = "earnings_credit"
	RequestRefunded  EntryKind = "request_refund"
	GoodwillRefunded EntryKind = "goodwill_refund"
	AnswerBroken     EntryKind = "broken_answer"
	OrphanPayout     EntryKind = "orphan_work"
)

// MinPayout is the least that a provider may ask for.
const MinPayout = 10 * money.USD

// EarningsBatch is line 15: a day's earnings of a provider may be paid out. What the
// provider owes is taken from them first. Business id: day, provider and chain.
func EarningsBatch(fact Fact, provider ids.ProviderID, amount, owed money.NanoUSD) (Entry, error) {
	if err := errors.Join(positive("amount", amount), notNegative("debt", owed)); err != nil {
		return Entry{}, fmt.Errorf("earnings batch: %w", err)
	}
	taken := min(owed, amount)
	return compose(EarningsBatched, fact, debit(Accrued, provider, amount),
		credit(ProviderReceivable, provider, taken), credit(Payable, provider, amount-taken))
}

// PayoutRequest is line 16. The amount is in whole micro-USD, because only those can be
// sent; PayableInFull returns the most. Business id: the payout.
func PayoutRequest(fact Fact, provider ids.ProviderID, amount money.NanoUSD) (Entry, error) {
	if err := payable(amount); err != nil {
		return Entry{}, fmt.Errorf("payout request: %w", err)
	}
	return compose(PayoutRequested, fact, debit(Payable, provider, amount), credit(PayoutInFlight, provider, amount))
}

// PayableInFull returns the part of a balance that can be paid out: whole micro-USD. The
// rest stays payable.
func PayableInFull(balance money.NanoUSD) money.NanoUSD {
	return max(balance-balance%nanoPerMicro, 0)
}

// PayoutConfirm is line 17: a payout of amount, less the fee, is final on its chain and
// took the sum. Of a coin that is as many units as the amount less the fee buys by the
// quote, rounded down. Business id: the payout.
func PayoutConfirm(fact Fact, provider ids.ProviderID, amount, fee money.NanoUSD, of Sum) (Entry, error) {
	err := errors.Join(payable(amount), notNegative("fee", fee))
	if err == nil && fee >= amount {
		err = fmt.Errorf("a fee of %s is not below the amount", fee)
	}
	var due Units
	if err == nil {
		due, err = Due(of.Token, of.Quote, amount-fee)
	}
	if err == nil && due != of.Units {
		err = fmt.Errorf("%d units of %s are due, and not %d", due, of.Token, of.Units)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("payout confirmation: %w", err)
	}
	return of.entry(PayoutConfirmed, fact, append(of.spent(amount-fee),
		debit(PayoutInFlight, provider, amount),
		credit(PayoutFee, nobody, fee))...)
}

// PayoutFail is line 18: a payout was provably not sent. Business id: the
// payout.
func PayoutFail(fact Fact, provider ids.ProviderID, amount money.NanoUSD) (Entry, error) {
	if err := payable(amount); err != nil {
		return Entry{}, fmt.Errorf("payout failure: %w", err)
	}
	return compose(PayoutFailed, fact, debit(PayoutInFlight, provider, amount), credit(Payable, provider, amount))
}

// EarningsCredit is line 19: a provider turns earnings into credit of its
// consumer account. Business id: the conversion.
func EarningsCredit(fact Fact, provider ids.ProviderID, account ids.AccountID, amount money.NanoUSD) (Entry, error) {
	if err := positive("amount", amount); err != nil {
		return Entry{}, fmt.Errorf("earnings credit: %w", err)
	}
	return compose(EarningsCredited, fact, debit(Payable, provider, amount), credit(Available, account, amount))
}

// Clawback says from which accounts the payout of a refunded request is taken back.
type Clawback struct {
	Accrued, Payable, Receivable money.NanoUSD
}

// RequestRefund is line 20: a charged request is refunded because its provider
// was at fault. The provider gives back the payout, from where taken says, and
// the platform its margin. Business id: the request.
func RequestRefund(
	fact Fact, account ids.AccountID, provider ids.ProviderID, charged, payout money.NanoUSD, taken Clawback,
) (Entry, error) {
	err := errors.Join(positive("charge", charged), notNegative("payout", payout),
		notNegative("accrued", taken.Accrued), notNegative("payable", taken.Payable),
		notNegative("receivable", taken.Receivable))
	switch {
	case err != nil:
	case payout > charged:
		err = fmt.Errorf("a payout of %s exceeds the charge of %s", payout, charged)
	case taken.Accrued+taken.Payable+taken.Receivable != payout:
		err = errors.New("the amounts taken back do not sum to the payout")
	}
	if err != nil {
		return Entry{}, fmt.Errorf("request refund: %w", err)
	}
	return compose(RequestRefunded, fact,
		debit(Accrued, provider, taken.Accrued),
		debit(Payable, provider, taken.Payable),
		debit(ProviderReceivable, provider, taken.Receivable),
		debit(UsageMargin, nobody, charged-payout),
		credit(Available, account, charged))
}

// GoodwillRefund is line 21: a request is refunded at the platform's expense.
// Business id: the request.
func GoodwillRefund(fact Fact, account ids.AccountID, charged money.NanoUSD) (Entry, error) {
	if err := positive("charge", charged); err != nil {
		return Entry{}, fmt.Errorf("goodwill refund: %w", err)
	}
	return compose(GoodwillRefunded, fact, debit(Goodwill, nobody, charged), credit(Available, account, charged))
}

// BrokenAnswer is line 21 for a part of a charge: what a request was charged above what
// arrived of an answer that the platform broke off. Business id: the request.
func BrokenAnswer(fact Fact, account ids.AccountID, excess money.NanoUSD) (Entry, error) {
	if err := positive("excess", excess); err != nil {
		return Entry{}, fmt.Errorf("broken answer: %w", err)
	}
	return compose(AnswerBroken, fact, debit(Goodwill, nobody, excess), credit(Available, account, excess))
}

// Orphan is line 27: a provider is paid at the platform's expense for a request
// whose hold was released or had expired. Business id: the request. The amount
// is checked where the entry is posted.
func Orphan(id ids.EntryID, request ids.RequestID, provider ids.ProviderID, payout money.NanoUSD) Entry {
	return Entry{ID: id, Kind: OrphanPayout, BusinessID: request.String(), Postings: []Posting{
		debit(OrphanWork, nobody, payout), credit(Accrued, provider, payout),
	}}
}

func payable(amount money.NanoUSD) error {
	switch {
	case amount < MinPayout || amount > MaxAmount:
		return fmt.Errorf("an amount of %s is out of range", amount)
	case amount%nanoPerMicro != 0:
		return fmt.Errorf("an amount of %s is not in whole micro-USD", amount)
	}
	return nil
}
