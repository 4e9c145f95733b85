package ledger

import "slices"

// AccountKind is a line of the chart of accounts. Its first letter names its type:
// assets, liabilities, revenue, expenses, suspense, contra accounts (x), and memo
// accounts (m), which count tokens that have no value in the books.
type AccountKind string

// The chart of accounts.
const (
	// CardClearing is what the card processor owes.
	CardClearing AccountKind = "a:card_clearing"
	// Crypto is what the platform's wallets hold, by chain and token: its value
	// in USD, and beside it the tokens themselves.
	Crypto AccountKind = "a:crypto"
	// Bank is money at the bank.
	Bank AccountKind = "a:bank"
	// ProviderReceivable is what a provider owes: for a refund of more than it had earned,
	// or for collateral whose card payment was reversed.
	ProviderReceivable AccountKind = "a:provider_receivable"
	// ConsumerReceivable is what a consumer owes who has spent what was taken back: a card
	// payment, or a deposit that its chain no longer has.
	ConsumerReceivable AccountKind = "a:consumer_receivable"

	// Available is what a consumer may still spend.
	Available AccountKind = "l:consumer:available"
	// Held is what open holds have set aside.
	Held AccountKind = "l:consumer:held"
	// PlanPool is what was paid for the plans of a month.
	PlanPool AccountKind = "l:plan_pool"
	// Accrued is what a provider has earned and what is not batched yet.
	Accrued AccountKind = "l:provider:accrued"
	// Payable is what a provider may ask to be paid out.
	Payable AccountKind = "l:provider:payable"
	// PlanHeld is what a provider earned by requests of a month's plans, until the month
	// is closed.
	PlanHeld AccountKind = "l:provider:plan_held"
	// PayoutInFlight is what a provider requested and has not received yet.
	PayoutInFlight AccountKind = "l:provider:payout_in_flight"
	// Collateral is a provider's collateral that was paid by card.
	Collateral AccountKind = "l:provider:collateral"
	// CollateralRefundPending is collateral on its way back.
	CollateralRefundPending AccountKind = "l:provider:collateral_refund_pending"
	// SlashEscrow is slashed collateral while it may be appealed.
	SlashEscrow AccountKind = "l:provider:slash_escrow"
	// VendorPayable is what a gateway to frontier models is owed.
	VendorPayable AccountKind = "l:vendor:payable"

	// PlanAccrual is what a month's plans owe providers before the month is
	// closed, and zero after.
	PlanAccrual AccountKind = "x:plan_accrual"

	// UsageMargin is list price less payout.
	UsageMargin AccountKind = "r:usage_margin"
	// PlanRevenue is the rest of a month's pool, after its providers are paid.
	PlanRevenue AccountKind = "r:plan"
	// CardFee is the fee shown at a card top-up.
	CardFee AccountKind = "r:card_fee"
	// PayoutFee is the flat fee of a payout.
	PayoutFee AccountKind = "r:payout_fee"
	// SlashRevenue is slashed collateral that nobody else gets.
	SlashRevenue AccountKind = "r:slash"

	// DepositBonus is the bonus on deposits of the native token.
	DepositBonus AccountKind = "e:deposit_bonus"
	// Processor is what the card processor keeps.
	Processor AccountKind = "e:processor"
	// Gas is what transactions on chains cost.
	Gas AccountKind = "e:gas"
	// Shortfall is what a request cost above what its consumer had.
	Shortfall AccountKind = "e:shortfall"
	// OrphanWork is what providers are paid for requests whose hold was closed before.
	OrphanWork AccountKind = "e:orphan_work"
	// Goodwill is credit given by an operator.
	Goodwill AccountKind = "e:goodwill"
	// Chargeback is what consumers owe for card payments and never pay.
	Chargeback AccountKind = "e:chargeback"
	// FXRounding is what conversions round away.
	FXRounding AccountKind = "e:fx_rounding"
	// FXRevaluation is what the platform's coins lose in value; a gain lowers it.
	FXRevaluation AccountKind = "e:fx_revaluation"
	// Discount is what discounts cost.
	Discount AccountKind = "e:discount"
	// Playground is what requests of the playground cost.
	Playground AccountKind = "e:playground"
	// Verification is what hidden probes of providers cost.
	Verification AccountKind = "e:verification"

	// UnmatchedDeposit is money that arrived without an account; it must drain to zero.
	UnmatchedDeposit AccountKind = "s:unmatched_deposit"
	// Disputed is money in dispute; it must drain to zero.
	Disputed AccountKind = "s:disputed"

	// Custody counts collateral tokens on a chain, which the platform does not hold.
	// CollateralTokens counts the same tokens by owner.
	Custody          AccountKind = "m:custody"
	CollateralTokens AccountKind = "m:collateral"
	// Treasury is the other side of tokens in Crypto.
	Treasury AccountKind = "m:treasury"
)

// Side is the side on which the balance of an account normally stands.
type Side string

// The sides.
const (
	Debit  Side = "debit"
	Credit Side = "credit"
)

// BookForm is the form of the books into which an owner's accounts of one kind are
// divided.
type BookForm string

// The forms of books.
const (
	// NoBook is one account, ByMonth one for each month ("2026-03"), ByChain for
	// each chain's number ("8453"), ByToken for each token ("8453:usdc").
	NoBook  BookForm = ""
	ByMonth BookForm = "month"
	ByChain BookForm = "chain"
	ByToken BookForm = "token"
)

// Line is a kind of account.
type Line struct {
	Kind   AccountKind
	Normal Side
	// Owned reports whether each consumer, provider or vendor has an account of its own.
	Owned bool
	Book  BookForm
}

var chart = []Line{
	{CardClearing, Debit, false, NoBook},
	{Crypto, Debit, false, ByToken},
	{Bank, Debit, false, NoBook},
	{ProviderReceivable, Debit, true, NoBook},
	{ConsumerReceivable, Debit, true, NoBook},

	{Available, Credit, true, NoBook},
	{Held, Credit, true, NoBook},
	{PlanPool, Credit, false, ByMonth},
	{Accrued, Credit, true, NoBook},
	{Payable, Credit, true, NoBook},
	{PlanHeld, Credit, true, ByMonth},
	{PayoutInFlight, Credit, true, NoBook},
	{Collateral, Credit, true, NoBook},
	{CollateralRefundPending, Credit, true, NoBook},
	{SlashEscrow, Credit, true, NoBook},
	{VendorPayable, Credit, true, NoBook},

	{PlanAccrual, Debit, false, ByMonth},

	{UsageMargin, Credit, false, NoBook},
	{PlanRevenue, Credit, false, NoBook},
	{CardFee, Credit, false, NoBook},
	{PayoutFee, Credit, false, NoBook},
	{SlashRevenue, Credit, false, NoBook},

	{DepositBonus, Debit, false, NoBook},
	{Processor, Debit, false, NoBook},
	{Gas, Debit, false, NoBook},
	{Shortfall, Debit, false, NoBook},
	{OrphanWork, Debit, false, NoBook},
	{Goodwill, Debit, false, NoBook},
	{Chargeback, Debit, false, NoBook},
	{FXRounding, Debit, false, NoBook},
	{FXRevaluation, Debit, false, NoBook},
	{Discount, Debit, false, NoBook},
	{Playground, Debit, false, NoBook},
	{Verification, Debit, false, NoBook},

	{UnmatchedDeposit, Credit, false, NoBook},
	{Disputed, Credit, false, NoBook},

	{Custody, Debit, false, ByChain},
	{CollateralTokens, Credit, true, NoBook},
	{Treasury, Credit, false, NoBook},
}

// Chart returns the whole chart of accounts.
func Chart() []Line { return slices.Clone(chart) }

func lineOf(kind AccountKind) (Line, bool) {
	for _, l := range chart {
		if l.Kind == kind {
			return l, true
		}
	}
	return Line{}, false
}

// matches reports whether a book has the form.
func (f BookForm) matches(book string) bool {
	switch f {
	case NoBook:
		return book == ""
	case ByMonth:
		return Month(book).valid()
	case ByChain:
		return Chain(book).valid()
	case ByToken:
		_, known := Token(book).decimals()
		return known
	default:
		return false
	}
}
