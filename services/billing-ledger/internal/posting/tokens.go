package posting

import (
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Deposited is lines 2 and 3: tokens arrived for a consumer and are final.
type Deposited struct {
	none
	Transfer
	Account ids.AccountID
	Sum     ledger.Sum
	// Source is the address that the tokens came from; zero where it is not known.
	Source kin.Evidence
}

func (f Deposited) source() (ids.AccountID, kin.Evidence) { return f.Account, f.Source }

func (f Deposited) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	if err := f.check(f.Sum.Token); err != nil {
		return ledger.Entry{}, err
	}
	return ledger.Deposit(fact, f.Account, f.Sum)
}

// DepositStray is tokens that arrived and belong to nobody yet.
type DepositStray struct {
	none
	Transfer
	Sum ledger.Sum
}

// DepositReturned is a stray deposit that was sent back.
type DepositReturned struct {
	none
	Transfer
	Sum ledger.Sum
}

func (f DepositStray) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	if err := f.check(f.Sum.Token); err != nil {
		return ledger.Entry{}, err
	}
	return ledger.StrayDeposit(fact, f.Sum)
}

func (f DepositReturned) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	if err := f.check(f.Sum.Token); err != nil {
		return ledger.Entry{}, err
	}
	return ledger.ReturnDeposit(fact, f.Sum)
}

// DepositMatched gives a stray deposit to its consumer, at the value at which it came in.
type DepositMatched struct {
	none
	Transfer
	Account ids.AccountID
	Amount  money.NanoUSD
	// Source is that of Deposited.
	Source kin.Evidence
}

func (f DepositMatched) source() (ids.AccountID, kin.Evidence) { return f.Account, f.Source }

func (f DepositMatched) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	if !f.Chain.Valid() || !isHex(f.Hash, hashDigits) {
		return ledger.Entry{}, fmt.Errorf("%.90q is no transfer", f.businessID())
	}
	return ledger.MatchDeposit(fact, f.Account, f.Amount)
}

// DepositGone is the end of a deposit that its chain no longer has.
type DepositGone struct {
	Transfer
	Account ids.AccountID
	Sum     ledger.Sum
}

func (f DepositGone) needs() Needs { return Needs{Account: f.Account} }

func (f DepositGone) entry(fact ledger.Fact, has Has) (ledger.Entry, error) {
	if err := f.check(f.Sum.Token); err != nil {
		return ledger.Entry{}, err
	}
	return ledger.ReverseDeposit(fact, f.Account, f.Sum, has.Unheld)
}

// TreasuryMoved is tokens that were bought with money of the bank, or sold for it.
type TreasuryMoved struct {
	none
	Transaction
	Way ledger.Way
	Sum ledger.Sum
}

func (f TreasuryMoved) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	if err := f.check(f.Sum.Token); err != nil {
		return ledger.Entry{}, err
	}
	return ledger.TreasuryMove(fact, f.Way, f.Sum)
}
