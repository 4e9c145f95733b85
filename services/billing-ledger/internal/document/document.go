// Package document makes the numbered documents of an account: a receipt for each credit, an
// invoice for each month of usage, and a credit note for what is given back of a month that
// has its invoice.
//
// A document is made once, by the passbook's fold, and never changes: its body holds all that
// is printed, the seller's details included. Each series is numbered within the year of its
// documents' times, without gaps, in the transaction that makes the document. The invoice of
// a month is made before anything is folded of the next, so what comes later finds it made.
//
// Tax is part of the price. Without a rate in the settings nothing is said of tax.
package document

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Series is a series of numbers.
type Series string

// The series.
const (
	Receipt    Series = "R"
	Invoice    Series = "I"
	CreditNote Series = "C"
)

// title is what a document of a series is called.
func (s Series) title() string {
	switch s {
	case Receipt:
		return "Receipt"
	case Invoice:
		return "Invoice"
	default:
		return "Credit note"
	}
}

// Number names a document.
type Number struct {
	Series Series
	Year   int
	N      int
}

// String is the number as it is printed, as I-2026-000042.
func (n Number) String() string { return fmt.Sprintf("%s-%04d-%06d", n.Series, n.Year, n.N) }

// ErrMalformed is the error for a text that is no document's number.
var ErrMalformed = errors.New("no number of a document")

var numberForm = regexp.MustCompile(`^([RIC])-([1-9][0-9]{3})-([0-9]{6,9})$`)

// ParseNumber reads a number as String writes it.
func ParseNumber(text string) (Number, error) {
	parts := numberForm.FindStringSubmatch(text)
	if parts == nil {
		return Number{}, ErrMalformed
	}
	year, _ := strconv.Atoi(parts[2]) // the form has digits alone
	n, _ := strconv.Atoi(parts[3])
	number := Number{Series: Series(parts[1]), Year: year, N: n}
	if n == 0 || number.String() != text {
		return Number{}, ErrMalformed
	}
	return number, nil
}

// Seller is who sells.
type Seller struct {
	Name string `json:"name"`
	// Address has a line each.
	Address []string `json:"address,omitempty"`
	Email   string   `json:"email,omitempty"`
	TaxID   string   `json:"tax_id,omitempty"`
}

// Buyer is whose account it is.
type Buyer struct {
	Account ids.AccountID `json:"account_id"`
	Name    string        `json:"name"`
	Email   string        `json:"email,omitempty"`
}

// Rate is a rate of tax that prices include.
type Rate struct {
	// Name is what the tax is called; empty for no tax.
	Name string
	// BasisPoints is the rate in hundredths of a percent.
	BasisPoints int64
}

// Tax is the tax within a total.
type Tax struct {
	Name    string        `json:"name"`
	Percent string        `json:"percent"`
	Amount  money.NanoUSD `json:"amount_nano_usd"`
}

// basisPoints is how many of them are the whole.
const basisPoints = 10_000

// Within returns the tax that is within a total, rounded half away from zero; nil where there
// is no tax.
func (r Rate) Within(total money.NanoUSD) *Tax {
	if r.Name == "" {
		return nil
	}
	divisor := basisPoints + r.BasisPoints
	// A total is at most 10^18, so its product with the rate does not fit: the quotient and the
	// rest are multiplied by themselves.
	whole, rest := int64(total)/divisor, int64(total)%divisor
	half := divisor / 2
	if total < 0 {
		half = -half
	}
	amount := whole*r.BasisPoints + (rest*r.BasisPoints+half)/divisor
	percent := strings.TrimSuffix(strings.TrimRight(
		fmt.Sprintf("%d.%02d", r.BasisPoints/100, r.BasisPoints%100), "0"), ".")
	return &Tax{Name: r.Name, Percent: percent, Amount: money.NanoUSD(amount)}
}

// Line is a line of a document.
type Line struct {
	Text   string        `json:"text"`
	Detail string        `json:"detail,omitempty"`
	Amount money.NanoUSD `json:"amount_nano_usd"`
}

// Body is what is printed beside number and time.
type Body struct {
	Seller Seller `json:"seller"`
	Buyer  Buyer  `json:"buyer"`
	// Month is what an invoice is of, as 2026-03, and Refers the number of the invoice that a
	// credit note corrects.
	Month  string        `json:"month,omitempty"`
	Refers string        `json:"refers_to,omitempty"`
	Lines  []Line        `json:"lines"`
	Total  money.NanoUSD `json:"total_nano_usd"`
	Tax    *Tax          `json:"tax,omitempty"`
	Notes  []string      `json:"notes,omitempty"`
}

// Document is a document that was made.
type Document struct {
	Number
	Account ids.AccountID
	At      time.Time
	Amount  money.NanoUSD
	// Entry is zero for an invoice.
	Entry ids.EntryID
	Body  Body
}

// Title is what the document is called.
func (d Document) Title() string { return d.Series.title() }

// MonthText is a month as bodies have it.
func MonthText(month time.Time) string { return month.Format("2006-01") }
