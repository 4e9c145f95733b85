package posting

import (
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// none is embedded by facts that depend on no balance.
type none struct{}

func (none) needs() Needs { return Needs{} }

// EarningsBatch is line 15: what a provider earned on a day may be paid out, less what it
// owes.
type EarningsBatch struct {
	Day      time.Time
	Provider ids.ProviderID
	Chain    ledger.Chain
	Amount   money.NanoUSD
}

func (f EarningsBatch) needs() Needs { return Needs{Provider: f.Provider} }

func (f EarningsBatch) businessID() string {
	return fmt.Sprintf("%s/%s/%s", f.Day.Format(time.DateOnly), f.Provider, f.Chain)
}

func (f EarningsBatch) entry(fact ledger.Fact, has Has) (ledger.Entry, error) {
	if !f.Chain.Valid() {
		return ledger.Entry{}, fmt.Errorf("%.20q is no chain", f.Chain)
	}
	return ledger.EarningsBatch(fact, f.Provider, f.Amount, has.Owed)
}

// PayoutRequested is line 16.
type PayoutRequested struct {
	none
	Payout
}

// PayoutFailed is line 18.
type PayoutFailed struct {
	none
	Payout
}

// Payout is a payout of an amount before its fee, by its id.
type Payout struct {
	ID       string
	Provider ids.ProviderID
	Amount   money.NanoUSD
}

func (p Payout) businessID() string { return p.ID }

func (f PayoutRequested) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.PayoutRequest(fact, f.Provider, f.Amount)
}

func (f PayoutFailed) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.PayoutFail(fact, f.Provider, f.Amount)
}

// PayoutConfirmed is line 17: a payout is final on its chain, and took the sum.
type PayoutConfirmed struct {
	none
	Payout
	Fee money.NanoUSD
	Sum ledger.Sum
}

func (f PayoutConfirmed) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.PayoutConfirm(fact, f.Provider, f.Amount, f.Fee, f.Sum)
}

// Transaction is a transaction of a chain, by its hash in hexadecimal.
type Transaction struct {
	Chain ledger.Chain
	Hash  string
}

func (t Transaction) businessID() string { return string(t.Chain) + "/" + t.Hash }

// check refuses a transaction that cannot be, or that moves no tokens of its chain.
func (t Transaction) check(of ledger.Token) error {
	if !t.Chain.Valid() || of.Chain() != t.Chain {
		return fmt.Errorf("%.20q is not the chain of %.40q", t.Chain, of)
	}
	if !isHex(t.Hash, hashDigits) {
		return fmt.Errorf("%.70q is no hash of a transaction", t.Hash)
	}
	return nil
}

// The digits of a transaction's hash and of an address.
const (
	hashDigits    = 64
	addressDigits = 40
)

// isHex reports whether a text is 0x and so many digits in lower case. A fact has one name:
// hexadecimal in capitals would be another.
func isHex(text string, digits int) bool {
	rest, ok := strings.CutPrefix(text, "0x")
	return ok && len(rest) == digits && strings.Trim(rest, "0123456789abcdef") == ""
}

// GasSpent is the other half of line 17: what a transaction cost.
type GasSpent struct {
	none
	Transaction
	Sum ledger.Sum
}

func (f GasSpent) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	if err := f.check(f.Sum.Token); err != nil {
		return ledger.Entry{}, err
	}
	return ledger.GasSpent(fact, f.Sum)
}

// EarningsConverted is line 19: a provider turns earnings into credit.
type EarningsConverted struct {
	none
	Conversion string
	Provider   ids.ProviderID
	Account    ids.AccountID
	Amount     money.NanoUSD
}

func (f EarningsConverted) businessID() string { return f.Conversion }

func (f EarningsConverted) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.EarningsCredit(fact, f.Provider, f.Account, f.Amount)
}

// Transfer is a transfer of tokens within a transaction: Place counts the logs of the
// transaction's own receipt, because a log index changes when it is mined again. A transfer
// of the coin itself has place 0.
type Transfer struct {
	Transaction
	Place uint32
}

func (t Transfer) businessID() string {
	return fmt.Sprintf("%s/%d", t.Transaction.businessID(), t.Place)
}
