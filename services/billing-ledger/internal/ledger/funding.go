package ledger

import (
	"errors"
	"fmt"
	"math/bits"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries by which consumers are funded.
const (
	CardTopUpPaid     EntryKind = "card_topup"
	CardProcessorCost EntryKind = "card_cost"
	USDCDeposited     EntryKind = "deposit_usdc"
	NativeDeposited   EntryKind = "deposit_native"
	CardReversed      EntryKind = "card_reversed"
	GoodwillGrant     EntryKind = "goodwill"
	VerificationGrant EntryKind = "verification"
)

// BonusPercent is the bonus on deposits of the native token.
const BonusPercent = 20

// nanoPerMicro is the nano-USD in the smallest unit of USDC.
const nanoPerMicro = 1000

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

// USDCDeposit is line 2: micro-USD arrived on a chain and are final. Business
// id: chain, transaction and log index.
func USDCDeposit(fact Fact, account ids.AccountID, token Token, micro Units) (Entry, error) {
	if token != USDCEthereum && token != USDCBase {
		return Entry{}, fmt.Errorf("deposit: %q is not USDC", token)
	}
	if micro <= 0 || micro > Units(MaxAmount/nanoPerMicro) {
		return Entry{}, fmt.Errorf("deposit: %d units are out of range", micro)
	}
	amount := money.NanoUSD(micro) * nanoPerMicro
	return compose(USDCDeposited, fact, append(received(token, micro),
		debit(Crypto, nobody, amount).in(string(token)),
		credit(Available, account, amount))...)
}

// NativeDeposit is line 3: units of the native token arrived and are final, at
// the price of quote. The asset is worth that exactly, rounded half to even;
// the consumer is credited the same rounded down, and the difference goes to
// FXRounding. The bonus is BonusPercent of what is credited, rounded down.
// Business id: chain, transaction and log index.
func NativeDeposit(fact Fact, account ids.AccountID, units Units, quote Quote) (Entry, error) {
	if quote.Token != Native {
		return Entry{}, fmt.Errorf("native deposit: the quote is of %q", quote.Token)
	}
	down, even, err := quote.Value(units)
	if err != nil {
		return Entry{}, fmt.Errorf("native deposit: %w", err)
	}
	bonus := percent(down, BonusPercent)
	if err := positive("amount", down); err != nil {
		return Entry{}, fmt.Errorf("native deposit: %w", err)
	}
	e, err := compose(NativeDeposited, fact, append(received(Native, units),
		debit(Crypto, nobody, even).in(string(Native)),
		debit(DepositBonus, nobody, bonus),
		credit(Available, account, down+bonus),
		credit(FXRounding, nobody, even-down))...)
	e.Quote = &quote
	return e, err
}

// CardReversal is line 22: the card's owner got amount back, by a refund or a dispute. It
// is taken from the consumer's credit, at most available; the rest is the platform's
// loss. The caller freezes the account. Business id: the processor's refund or dispute.
func CardReversal(fact Fact, account ids.AccountID, amount, available money.NanoUSD) (Entry, error) {
	if err := errors.Join(positive("amount", amount), notNegative("available", available)); err != nil {
		return Entry{}, fmt.Errorf("card reversal: %w", err)
	}
	taken := min(available, amount)
	return compose(CardReversed, fact,
		debit(Available, account, taken),
		debit(Chargeback, nobody, amount-taken),
		credit(CardClearing, nobody, amount))
}

// Grant is line 21 for an operator's reason of any kind: credit at the platform's
// expense, debiting Goodwill and crediting Available. Business id: the operator's
// idempotency key. The amount is checked where the entry is posted.
func Grant(id ids.EntryID, account ids.AccountID, amount money.NanoUSD, idempotencyKey, memo string) Entry {
	return Entry{ID: id, Kind: GoodwillGrant, BusinessID: idempotencyKey, Memo: memo, Postings: []Posting{
		debit(Goodwill, nobody, amount), credit(Available, account, amount),
	}}
}

// FundVerification is line 21 for a house account: credit for hidden probes of providers,
// debiting Verification and crediting Available. Business id: the verifier's idempotency
// key. The amount is checked where the entry is posted.
func FundVerification(id ids.EntryID, house ids.AccountID, amount money.NanoUSD, idempotencyKey string) Entry {
	return Entry{ID: id, Kind: VerificationGrant, BusinessID: idempotencyKey, Postings: []Posting{
		debit(Verification, nobody, amount), credit(Available, house, amount),
	}}
}

// received returns the legs of tokens that came in.
func received(token Token, units Units) []Posting {
	return []Posting{
		debit(Crypto, nobody, money.NanoUSD(units)).in(string(token)).tokens(token),
		credit(Treasury, nobody, money.NanoUSD(units)).tokens(token),
	}
}

// spent returns the legs of tokens that went out.
func spent(token Token, units Units) []Posting {
	return []Posting{
		debit(Treasury, nobody, money.NanoUSD(units)).tokens(token),
		credit(Crypto, nobody, money.NanoUSD(units)).in(string(token)).tokens(token),
	}
}

// percent returns a share of an amount that is not negative, rounded down.
func percent(amount money.NanoUSD, share uint64) money.NanoUSD {
	hi, lo := bits.Mul64(uint64(amount), share)
	quotient, _ := bits.Div64(hi, lo, 100)
	return money.NanoUSD(quotient)
}
