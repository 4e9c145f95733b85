// Package audit recomputes every invariant of the ledger from the rows themselves. It
// sums from both sides what must be equal, computes the cost of a settled request again
// from its tokens and its pinned rates, and hashes and sums sealed days again. It reads
// one consistent view and writes nothing.
package audit

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// MaxExamples bounds how many drifts of an invariant are named; all of them are counted.
const MaxExamples = 10

// Names of the invariants that are checked here. The store names the invariants that are
// checked in SQL.
const (
	AmountsRecomputed = "amounts of settled requests follow from tokens and rates"
	TrialBalanceZero  = "trial balance sums to zero"
)

// Invariant is one rule and the result of its check.
type Invariant struct {
	Name string `json:"name"`
	// Checked is the number of rows that were looked at, Drift the number that break the
	// rule.
	Checked  int64    `json:"checked"`
	Drift    int64    `json:"drift"`
	Examples []string `json:"examples,omitempty"`
}

// Found counts one drift.
func (i *Invariant) Found(example string) {
	i.Drift++
	if len(i.Examples) < MaxExamples {
		i.Examples = append(i.Examples, example)
	}
}

// Balance is one line of the trial balance: credits less debits, in nano-USD or
// units of a token.
type Balance struct {
	Account ledger.AccountKind
	Asset   ledger.Asset
	Amount  money.NanoUSD
}

// Line is a settled request beside what its hold pinned.
type Line struct {
	Request       ids.RequestID
	Source        usage.Source
	Tokens        money.Tokens
	Rates, Pinned money.Rates
	// Vendor reports that a vendor served the request. Cached are the prompt tokens that the
	// vendor read from its cache.
	Vendor    bool
	Cached    int64
	ListPrice money.NanoUSD
	Payout    money.NanoUSD
	Charged   money.NanoUSD
	Shortfall money.NanoUSD
	Discount  money.NanoUSD
	// Agreed is the discount that the hold pinned; below zero where there is no hold.
	Agreed money.Discount
	// Held is the amount of the hold.
	Held money.NanoUSD
}

// Facts are what the store finds by itself.
type Facts struct {
	Invariants []Invariant
	Balances   []Balance
	// Lines is the number of settled requests.
	Lines int64
	// Seal is the root of the last sealed day; nil for none.
	Seal []byte
}

// Source shows the ledger.
type Source interface {
	// Audit checks what SQL can check, on one view of the data. It shows each the settled
	// requests, all of them when any looks wrong.
	Audit(ctx context.Context, each func(Line)) (Facts, error)
}

// Report is the whole result.
type Report struct {
	TrialBalance []TrialLine `json:"trial_balance"`
	Invariants   []Invariant `json:"invariants"`
	// Tokens is the trial balance of token amounts.
	Tokens []TokenLine `json:"tokens,omitempty"`
	// Seal is the root of the last sealed day in hexadecimal; empty for none.
	Seal string `json:"seal"`
	// Drift is the sum over the invariants; 0 is a sound ledger.
	Drift int64 `json:"drift"`
}

// TrialLine is one line of the chart of accounts, in exact US dollars.
type TrialLine struct {
	Account string `json:"account"`
	Debit   string `json:"debit_usd"`
	Credit  string `json:"credit_usd"`
}

// TokenLine is the amount of a token in an account, in the token's units.
type TokenLine struct {
	Account string `json:"account"`
	Token   string `json:"token"`
	Debit   int64  `json:"debit_units"`
	Credit  int64  `json:"credit_units"`
}

// Run checks every invariant.
func Run(ctx context.Context, source Source) (Report, error) {
	amounts := Invariant{Name: AmountsRecomputed}
	facts, err := source.Audit(ctx, func(l Line) {
		if problem := l.problem(); problem != "" {
			amounts.Found(fmt.Sprintf("request %s: %s", l.Request, problem))
		}
	})
	if err != nil {
		return Report{}, fmt.Errorf("read the ledger: %w", err)
	}
	amounts.Checked = facts.Lines
	report := Report{Seal: hex.EncodeToString(facts.Seal)}
	var zero Invariant
	report.TrialBalance, report.Tokens, zero = trialBalance(facts.Balances)
	report.Invariants = append(slices.Clone(facts.Invariants), amounts, zero)
	for _, i := range report.Invariants {
		report.Drift += i.Drift
	}
	return report, nil
}

// problem returns how a line contradicts what its hold pinned.
func (l Line) problem() string {
	list, err := l.Pinned.Charge(l.Tokens)
	if err != nil {
		return "its price overflows"
	}
	payout, err := l.Pinned.Payout(l.Tokens)
	if l.Vendor {
		payout, err = l.Pinned.VendorCost(l.Tokens, l.Cached)
	}
	if err != nil {
		return "its payout overflows"
	}
	switch {
	case l.Rates != l.Pinned:
		return "its rates are not those of its hold"
	case l.ListPrice != list:
		return fmt.Sprintf("list price %s, recomputed %s", l.ListPrice, list)
	case l.Payout != payout:
		return fmt.Sprintf("payout %s, recomputed %s", l.Payout, payout)
	case l.Source != usage.PayAsYouGo && (l.Charged != 0 || l.Shortfall != 0 || l.Discount != 0):
		return fmt.Sprintf("source %s is charged %s and short %s", l.Source, l.Charged, l.Shortfall)
	case l.Source == usage.PayAsYouGo && l.Charged+l.Shortfall+l.Discount != list:
		return fmt.Sprintf("charged %s and short %s, which is not its list price %s", l.Charged, l.Shortfall, list)
	case l.Source == usage.PayAsYouGo && l.Agreed >= 0 && l.Discount != l.Agreed.Of(list):
		return fmt.Sprintf("discount %s, recomputed %s", l.Discount, l.Agreed.Of(list))
	case l.Shortfall > 0 && l.Charged < l.Held:
		return fmt.Sprintf("short %s although only %s of the hold of %s was charged", l.Shortfall, l.Charged, l.Held)
	}
	return ""
}

func trialBalance(balances []Balance) (lines []TrialLine, tokens []TokenLine, zero Invariant) {
	zero = Invariant{Name: TrialBalanceZero, Checked: int64(len(balances))}
	debits, credits := map[ledger.Asset]money.NanoUSD{}, map[ledger.Asset]money.NanoUSD{}
	for _, b := range balances {
		debit, credit := max(-b.Amount, 0), max(b.Amount, 0)
		debits[b.Asset] += debit
		credits[b.Asset] += credit
		if b.Asset == ledger.USD {
			lines = append(lines, TrialLine{Account: string(b.Account), Debit: debit.String(), Credit: credit.String()})
		} else {
			tokens = append(tokens, TokenLine{Account: string(b.Account), Token: string(b.Asset), Debit: int64(debit),
				Credit: int64(credit)})
		}
	}
	lines = append(lines, TrialLine{Account: "total", Debit: debits[ledger.USD].String(),
		Credit: credits[ledger.USD].String()})
	for asset, debit := range debits {
		if debit != credits[asset] {
			zero.Found(fmt.Sprintf("%s: debits %s, credits %s", asset, debit, credits[asset]))
		}
	}
	slices.SortFunc(tokens, func(a, b TokenLine) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Token, b.Token))
	})
	return lines, tokens, zero
}
