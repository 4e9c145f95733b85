package document

import (
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/passbook"
)

// maxLines bounds the lines of an invoice; the rest of the models share one more.
const maxLines = 500

// Maker makes the bodies of documents.
type Maker struct {
	Seller Seller
	Tax    Rate
}

// Receipt makes the receipt of an entry that credits a buyer: what was paid, and what of it
// became credit. amount is the credit.
func (m Maker) Receipt(e ledger.Entry, buyer Buyer) (body Body, amount money.NanoUSD) {
	body = Body{Seller: m.Seller, Buyer: buyer}
	var fee, bonus money.NanoUSD
	for _, p := range e.Postings {
		switch {
		case p.Account.Kind == ledger.Available && p.Account.Owner == [16]byte(buyer.Account):
			amount += p.Amount
		case p.Account.Kind == ledger.CardFee:
			fee += p.Amount
		case p.Account.Kind == ledger.DepositBonus:
			bonus -= p.Amount
		}
	}
	body.Lines = append(body.Lines, Line{Text: passbook.Text(e.Kind), Detail: rateOf(e), Amount: amount - bonus})
	if bonus != 0 {
		body.Lines = append(body.Lines, Line{Text: "Bonus", Amount: bonus})
	}
	if fee != 0 {
		body.Lines = append(body.Lines, Line{Text: "Fee of the card payment", Amount: fee})
	}
	body.Total = amount + fee
	body.Notes = []string{"Credit of the account: $" + amount.String() + ". It is prepaid; what is used of it is " +
		"invoiced by month."}
	return body, amount
}

// rateOf says at what price coins became credit.
func rateOf(e ledger.Entry) string {
	if e.Quote == nil {
		return ""
	}
	return fmt.Sprintf("at $%s for one, by %s at %s", e.Quote.Rate, e.Quote.Source,
		e.Quote.At.UTC().Format(time.RFC3339))
}

// Used is the usage of one model in a month.
type Used struct {
	Model string
	passbook.Counts
}

// Month is what an account used and was given back in a month.
type Month struct {
	Month time.Time
	// Used has the most charged first.
	Used []Used
	// Refunded is what of the month's own charges was given back within it, in Refunds refunds.
	Refunded money.NanoUSD
	Refunds  int64
	// Plans are what was paid for plans in the month, and what of it went back.
	Plans []Line
}

// Invoice makes the invoice of a month.
func (m Maker) Invoice(of Month, buyer Buyer) Body {
	body := Body{Seller: m.Seller, Buyer: buyer, Month: MonthText(of.Month)}
	var others passbook.Counts
	for i, u := range of.Used {
		if i >= maxLines {
			others.Requests += u.Requests
			others.Charged += u.Charged
			continue
		}
		body.Lines = append(body.Lines, Line{Text: "Usage of " + u.Model, Detail: detailOf(u.Counts), Amount: u.Charged})
	}
	if others.Requests > 0 {
		body.Lines = append(body.Lines, Line{Text: "Usage of other models", Detail: detailOf(others), Amount: others.Charged})
	}
	if of.Refunds > 0 {
		body.Lines = append(body.Lines, Line{Text: "Refunds", Detail: fmt.Sprintf("%d requests", of.Refunds),
			Amount: -of.Refunded})
	}
	body.Lines = append(body.Lines, boundedPlans(of.Plans)...)
	for _, l := range body.Lines {
		body.Total += l.Amount
	}
	body.Tax = m.Tax.Within(body.Total)
	body.Notes = []string{"Usage was paid from prepaid credit, or by the plan, as it occurred. Nothing is due."}
	return body
}

// boundedPlans has the last lines share one, where they are too many.
func boundedPlans(lines []Line) []Line {
	if len(lines) <= maxLines {
		return lines
	}
	rest := Line{Text: "Further payments and refunds of plans"}
	for _, l := range lines[maxLines:] {
		rest.Amount += l.Amount
	}
	return append(slices.Clone(lines[:maxLines]), rest)
}

// PlanLine is the line of a plan's payment, or of what went back of it, which is below zero.
func PlanLine(plan string, from, to time.Time, amount money.NanoUSD) Line {
	l := Line{Text: "Plan " + plan, Detail: from.UTC().Format(time.DateOnly) + " to " + to.UTC().Format(time.DateOnly),
		Amount: amount}
	if amount < 0 {
		l.Text = "Refund of plan " + plan
	}
	return l
}

func detailOf(c passbook.Counts) string {
	text := fmt.Sprintf("%d requests", c.Requests)
	for _, part := range []struct {
		n    int64
		unit string
	}{
		{c.Prompt, "tokens in"}, {c.Completion, "tokens out"}, {c.Images, "images"}, {c.AudioMS / 1000, "seconds of audio"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.unit)
		}
	}
	if c.Covered > 0 {
		text += ", $" + c.Covered.String() + " at list price covered by the plan"
	}
	return text
}

// CreditNote makes the credit note of what goes back of something that an invoice has.
func (m Maker) CreditNote(of Line, buyer Buyer, invoice Number) (Body, money.NanoUSD) {
	body := Body{Seller: m.Seller, Buyer: buyer, Refers: invoice.String(), Total: of.Amount, Lines: []Line{of}}
	body.Tax = m.Tax.Within(body.Total)
	return body, -of.Amount
}

// RefundLine is the line of an entry that refunds a request.
func RefundLine(e ledger.Entry, buyer Buyer) Line {
	l := Line{Text: passbook.Text(e.Kind), Detail: "request " + e.BusinessID}
	for _, p := range e.Postings {
		if p.Account.Kind == ledger.Available && p.Account.Owner == [16]byte(buyer.Account) {
			l.Amount -= p.Amount
		}
	}
	return l
}
