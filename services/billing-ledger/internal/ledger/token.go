package ledger

import (
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries of tokens that the platform holds.
const (
	USDCDeposited    EntryKind = "deposit_usdc"
	NativeDeposited  EntryKind = "deposit_native"
	DepositUnmatched EntryKind = "deposit_unmatched"
	DepositMatched   EntryKind = "deposit_matched"
	DepositReturned  EntryKind = "deposit_returned"
	DepositReversed  EntryKind = "deposit_reversed"
	TokensMoved      EntryKind = "treasury"
	TokensRevalued   EntryKind = "revaluation"
	PayoutGas        EntryKind = "gas"
)

// BonusPercent is the bonus on deposits of the native token.
const BonusPercent = 20

// nanoPerMicro is the nano-USD in the smallest unit of USDC.
const nanoPerMicro = 1000

// Sum is an amount of a token. A coin has the quote by which it is valued, and USDC, which
// is worth a dollar, has none.
type Sum struct {
	Token Token
	Units Units
	Quote *Quote
}

// stable reports whether a token is worth a dollar.
func (t Token) stable() bool { return t == USDCEthereum || t == USDCBase }

// value returns what the sum is worth: down for the credit of a consumer, and even, rounded
// half to even, for what the platform holds.
func (s Sum) value() (down, even money.NanoUSD, err error) {
	switch {
	case s.Token.stable() && s.Quote != nil:
		return 0, 0, errors.New("USDC has no quote")
	case s.Token.stable():
		if s.Units <= 0 || s.Units > Units(MaxAmount/nanoPerMicro) {
			return 0, 0, fmt.Errorf("%d units are out of range", s.Units)
		}
		amount := money.NanoUSD(s.Units) * nanoPerMicro
		return amount, amount, nil
	case s.Quote == nil || s.Quote.Token != s.Token:
		return 0, 0, fmt.Errorf("%q has no quote of its own", s.Token)
	}
	down, even, err = s.Quote.Value(s.Units)
	if err == nil {
		err = positive("value", even)
	}
	return down, even, err
}

// Due returns how many units of a token an amount buys, rounded down, at least one. A coin
// has its quote, and USDC none.
func Due(token Token, quote *Quote, amount money.NanoUSD) (Units, error) {
	if err := positive("amount", amount); err != nil {
		return 0, err
	}
	units := Units(amount / nanoPerMicro)
	switch {
	case token.stable() && quote != nil:
		return 0, errors.New("USDC has no quote")
	case token.stable():
	case quote == nil || quote.Token != token:
		return 0, fmt.Errorf("%q has no quote of its own", token)
	default:
		var err error
		if units, err = quote.Buys(amount); err != nil {
			return 0, err
		}
	}
	if units == 0 {
		return 0, fmt.Errorf("%s buys nothing of %s", amount, token)
	}
	return units, nil
}

// received returns the legs of tokens that came in.
func (s Sum) received(value money.NanoUSD) []Posting {
	return []Posting{
		debit(Crypto, nobody, money.NanoUSD(s.Units)).in(string(s.Token)).tokens(s.Token),
		credit(Treasury, nobody, money.NanoUSD(s.Units)).tokens(s.Token),
		debit(Crypto, nobody, value).in(string(s.Token)),
	}
}

// spent returns the legs of tokens that went out.
func (s Sum) spent(value money.NanoUSD) []Posting {
	return []Posting{
		debit(Treasury, nobody, money.NanoUSD(s.Units)).tokens(s.Token),
		credit(Crypto, nobody, money.NanoUSD(s.Units)).in(string(s.Token)).tokens(s.Token),
		credit(Crypto, nobody, value).in(string(s.Token)),
	}
}

// entry makes an entry with the sum's quote.
func (s Sum) entry(kind EntryKind, fact Fact, legs ...Posting) (Entry, error) {
	e, err := compose(kind, fact, legs...)
	e.Quote = s.Quote
	return e, err
}

// Deposit is lines 2 and 3: tokens arrived on a chain and are final. The asset is worth
// its value rounded half to even. The consumer is credited the same rounded down, and the
// difference goes to FXRounding. On a coin there is a bonus of BonusPercent of what is
// credited, rounded down. Business id: chain, transaction, and the transfer's place among
// the logs of its own receipt, because a log index changes when a transaction is mined
// again.
func Deposit(fact Fact, account ids.AccountID, of Sum) (Entry, error) {
	down, even, err := of.value()
	if err == nil {
		err = positive("amount", down)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("deposit: %w", err)
	}
	kind, bonus := of.bonus(down)
	return of.entry(kind, fact, append(of.received(even),
		debit(DepositBonus, nobody, bonus),
		credit(Available, account, down+bonus),
		credit(FXRounding, nobody, even-down))...)
}

// bonus returns the kind of a deposit and its bonus.
func (s Sum) bonus(amount money.NanoUSD) (EntryKind, money.NanoUSD) {
	if s.Token.stable() {
		return USDCDeposited, 0
	}
	return NativeDeposited, percent(amount, BonusPercent)
}

// StrayDeposit is lines 2 and 3 for tokens that belong to nobody yet: they came by a
// transaction that no rule credits, or from a denied address. Business id: that of Deposit.
func StrayDeposit(fact Fact, of Sum) (Entry, error) {
	_, even, err := of.value()
	if err != nil {
		return Entry{}, fmt.Errorf("stray deposit: %w", err)
	}
	return of.entry(DepositUnmatched, fact, append(of.received(even), credit(UnmatchedDeposit, nobody, even))...)
}

// MatchDeposit gives an unmatched deposit, at the value at which it came in, to the
// consumer that it belongs to. Business id: that of Deposit.
func MatchDeposit(fact Fact, account ids.AccountID, amount money.NanoUSD) (Entry, error) {
	return move(DepositMatched, fact, amount, Account{Kind: UnmatchedDeposit}, Account{Kind: Available, Owner: account})
}

// ReturnDeposit sends an unmatched deposit back. The sum is that of the deposit with its
// quote, so that nothing of it stays unmatched. Business id: that of Deposit.
func ReturnDeposit(fact Fact, of Sum) (Entry, error) {
	_, even, err := of.value()
	if err != nil {
		return Entry{}, fmt.Errorf("return of a deposit: %w", err)
	}
	return of.entry(DepositReturned, fact, append(of.spent(even), debit(UnmatchedDeposit, nobody, even))...)
}

// ReverseDeposit is the end of a deposit that was final and that its chain no longer has.
// What was credited is taken from the consumer's credit, at most what no open hold has set
// aside, and the consumer owes the rest. The sum is that of the deposit with its quote.
// Business id: that of Deposit.
func ReverseDeposit(fact Fact, account ids.AccountID, of Sum, unheld money.NanoUSD) (Entry, error) {
	down, even, err := of.value()
	if err = errors.Join(err, notNegative("unheld", unheld)); err != nil {
		return Entry{}, fmt.Errorf("reversed deposit: %w", err)
	}
	_, bonus := of.bonus(down)
	taken := min(unheld, down+bonus)
	return of.entry(DepositReversed, fact, append(of.spent(even),
		debit(Available, account, taken),
		debit(ConsumerReceivable, account, down+bonus-taken),
		debit(FXRounding, nobody, even-down),
		credit(DepositBonus, nobody, bonus))...)
}

// Way is whether tokens enter the platform's wallets or leave them.
type Way bool

// The ways.
const (
	In  Way = true
	Out Way = false
)

// TreasuryMove is tokens that were bought with money of the bank, or sold for it. Business
// id: chain and transaction.
func TreasuryMove(fact Fact, way Way, of Sum) (Entry, error) {
	_, even, err := of.value()
	switch {
	case err != nil:
		return Entry{}, fmt.Errorf("treasury: %w", err)
	case way == In:
		return of.entry(TokensMoved, fact, append(of.received(even), credit(Bank, nobody, even))...)
	default:
		return of.entry(TokensMoved, fact, append(of.spent(even), debit(Bank, nobody, even))...)
	}
}

// Revaluation books a coin at the day's rate: the books' value of all of it becomes what
// units are worth by quote. Nothing is posted where nothing changes. Business id: token and
// day.
func Revaluation(fact Fact, booked money.NanoUSD, units Units, quote Quote) (Entry, error) {
	worth, err := quote.Worth(units)
	switch {
	case err != nil:
	case quote.Token.stable():
		err = errors.New("USDC is worth a dollar")
	case worth == booked:
		err = errors.New("nothing changes")
	case booked < -MaxAmount || booked > MaxAmount:
		err = fmt.Errorf("a value of %d is out of range", booked)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("revaluation: %w", err)
	}
	change := worth - booked
	return Sum{Token: quote.Token, Quote: &quote}.entry(TokensRevalued, fact,
		debit(Crypto, nobody, change).in(string(quote.Token)), credit(FXRevaluation, nobody, change))
}

// GasSpent is the other half of line 17: what a transaction cost, rounded half to even.
// Business id: chain and transaction.
func GasSpent(fact Fact, of Sum) (Entry, error) {
	_, even, err := of.value()
	if err == nil && of.Token.stable() {
		err = errors.New("gas is paid in the chain's coin")
	}
	if err != nil {
		return Entry{}, fmt.Errorf("gas: %w", err)
	}
	return of.entry(PayoutGas, fact, append(of.spent(even), debit(Gas, nobody, even))...)
}
