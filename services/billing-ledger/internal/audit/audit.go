// Package audit recomputes every invariant of the ledger from the rows
// themselves: what must be equal is summed from both sides, and what a settled
// request cost is worked out again from its tokens and the rates it was pinned
// to. It reads one consistent view and writes nothing.
package audit

import (
	"context"
	"fmt"
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// MaxExamples bounds how many drifts of an invariant are named; all are
// counted.
const MaxExamples = 10

// Names of the invariants that are checked here; those checked in SQL are named
// in the store.
const (
	AmountsRecomputed = "amounts of settled requests follow from tokens and rates"
	TrialBalanceZero  = "trial balance sums to zero"
)

// Invariant is one rule and how it stands.
type Invariant struct {
	Name string `json:"name"`
	// Checked is how many rows were looked at, Drift how many break the rule.
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

// Balance is one line of the trial balance: credits less debits.
type Balance struct {
	Account ledger.AccountKind
	Amount  money.NanoUSD
}

// Line is a settled request beside what its hold pinned.
type Line struct {
	Request       ids.RequestID
	Source        usage.Source
	Tokens        money.Tokens
	Rates, Pinned money.Rates
	ListPrice     money.NanoUSD
	Payout        money.NanoUSD
	Charged       money.NanoUSD
	Shortfall     money.NanoUSD
	// Held is the amount of the hold.
	Held money.NanoUSD
}

// Facts are what the store finds by itself.
type Facts struct {
	Invariants []Invariant
	Balances   []Balance
}

// Source shows the ledger.
type Source interface {
	// Audit checks what SQL can check and shows every settled request, all on
	// one view of the data.
	Audit(ctx context.Context, each func(Line)) (Facts, error)
}

// Report is the whole result.
type Report struct {
	TrialBalance []TrialLine `json:"trial_balance"`
	Invariants   []Invariant `json:"invariants"`
	// Drift is the sum over the invariants; 0 is a sound ledger.
	Drift int64 `json:"drift"`
}

// TrialLine is one line of the chart of accounts, in exact US dollars.
type TrialLine struct {
	Account string `json:"account"`
	Debit   string `json:"debit_usd"`
	Credit  string `json:"credit_usd"`
}

// Run checks everything.
func Run(ctx context.Context, source Source) (Report, error) {
	amounts := Invariant{Name: AmountsRecomputed}
	facts, err := source.Audit(ctx, func(l Line) {
		amounts.Checked++
		if problem := l.problem(); problem != "" {
			amounts.Found(fmt.Sprintf("request %s: %s", l.Request, problem))
		}
	})
	if err != nil {
		return Report{}, fmt.Errorf("read the ledger: %w", err)
	}
	trial, zero := trialBalance(facts.Balances)
	report := Report{TrialBalance: trial, Invariants: append(slices.Clone(facts.Invariants), amounts, zero)}
	for _, i := range report.Invariants {
		report.Drift += i.Drift
	}
	return report, nil
}

// problem says how a line contradicts what it was made from.
func (l Line) problem() string {
	list, err := l.Pinned.Charge(l.Tokens)
	if err != nil {
		return "its price overflows"
	}
	payout, err := l.Pinned.Payout(l.Tokens)
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
	case l.Source != usage.PayAsYouGo && (l.Charged != 0 || l.Shortfall != 0):
		return fmt.Sprintf("source %s is charged %s and short %s", l.Source, l.Charged, l.Shortfall)
	case l.Source == usage.PayAsYouGo && l.Charged+l.Shortfall != list:
		return fmt.Sprintf("charged %s and short %s, which is not its list price %s", l.Charged, l.Shortfall, list)
	case l.Shortfall > 0 && l.Charged < l.Held:
		return fmt.Sprintf("short %s although only %s of the hold of %s was charged", l.Shortfall, l.Charged, l.Held)
	}
	return ""
}

func trialBalance(balances []Balance) ([]TrialLine, Invariant) {
	zero := Invariant{Name: TrialBalanceZero, Checked: int64(len(balances))}
	var lines []TrialLine
	var debits, credits money.NanoUSD
	for _, b := range balances {
		line := TrialLine{Account: string(b.Account), Debit: "0.00", Credit: "0.00"}
		if b.Amount < 0 {
			line.Debit = (-b.Amount).String()
			debits -= b.Amount
		} else {
			line.Credit = b.Amount.String()
			credits += b.Amount
		}
		lines = append(lines, line)
	}
	lines = append(lines, TrialLine{Account: "total", Debit: debits.String(), Credit: credits.String()})
	if debits != credits {
		zero.Found(fmt.Sprintf("debits %s, credits %s", debits, credits))
	}
	return lines, zero
}
