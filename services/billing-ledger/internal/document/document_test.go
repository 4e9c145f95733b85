package document_test

import (
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/document"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/passbook"
)

func TestANumberIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"R-2026-000001", "I-2026-999999", "C-2026-1234567"} {
		n, err := document.ParseNumber(text)
		if err != nil {
			t.Errorf("%s: got the error %v, want none", text, err)
		} else if n.String() != text {
			t.Errorf("%s: got %s, want the same", text, n)
		}
	}
	for _, text := range []string{"", "R-2026-1", "X-2026-000001", "R-2026-000000", "r-2026-000001", "R-2026-000001 ",
		"R-26-000001", "R-2026-0000001", "R-2026-9999999999"} {
		if n, err := document.ParseNumber(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, n)
		}
	}
}

func FuzzANumberIsReadAsItIsWritten(f *testing.F) {
	f.Add("R-2026-000001")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := document.ParseNumber(text); err == nil && n.String() != text {
			t.Errorf("%q: got %q, want the same", text, n)
		}
	})
}

func TestTaxIsWithinTheTotal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		basisPoints int64
		total, want money.NanoUSD
		percent     string
	}{
		"20 %":        {2_000, 120 * money.USD, 20 * money.USD, "20"},
		"a note":      {2_000, -120 * money.USD, -20 * money.USD, "20"},
		"8.25 %":      {825, 108_250_000_000, 8_250_000_000, "8.25"},
		"7.5 %":       {750, 107_500_000_000, 7_500_000_000, "7.5"},
		"half":        {10_000, 1, 1, "100"},
		"the largest": {2_000, 1_000_000_000 * money.USD, 166_666_666_666_666_667, "20"},
	} {
		tax := document.Rate{Name: "VAT", BasisPoints: tc.basisPoints}.Within(tc.total)
		if tax.Amount != tc.want {
			t.Errorf("%s: got %v, want %v", name, tax.Amount, tc.want)
		}
		if tax.Percent != tc.percent {
			t.Errorf("%s: got %s percent, want %s", name, tax.Percent, tc.percent)
		}
	}
	if tax := (document.Rate{}).Within(money.USD); tax != nil {
		t.Errorf("none is configured: got %v, want none", tax)
	}
}

var buyer = document.Buyer{Account: ids.AccountID{1}, Name: `<script>alert("x")</script>`, Email: "a@example.org"}

func TestAPageIsEscapedAndHasNoScript(t *testing.T) {
	t.Parallel()
	maker := document.Maker{Seller: document.Seller{Name: "A & B", Address: []string{"<b>"}},
		Tax: document.Rate{Name: "VAT", BasisPoints: 2_000}}
	d := document.Document{Number: document.Number{Series: document.Invoice, Year: 2026, N: 7},
		At: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC),
		Body: maker.Invoice(document.Month{Month: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
			Used: []document.Used{{Model: "</td><script>", Counts: passbook.Counts{Requests: 2, Charged: 12 * money.USD}}}},
			buyer)}
	html, err := d.HTML()
	if err != nil {
		t.Fatal(err)
	}
	text := string(html)
	if strings.Contains(text, "<script") {
		t.Errorf("got a script in %s, want none", text)
	}
	for _, want := range []string{"Invoice I-2026-000007", "2026-04-01", "Month: 2026-03", "A &amp; B", "&lt;script&gt;",
		"12.00", "of which VAT 20 %", "2.00"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %q in it", text, want)
		}
	}
	if !strings.Contains(document.Policy, "default-src 'none'") || strings.Contains(document.Policy, "unsafe") {
		t.Errorf("policy: got %q, want nothing but the page's own style", document.Policy)
	}
}

func TestAnInvoiceHasABoundedNumberOfLines(t *testing.T) {
	t.Parallel()
	of := document.Month{Refunds: 1, Refunded: money.USD}
	for range 700 {
		of.Used = append(of.Used, document.Used{Model: "m", Counts: passbook.Counts{Requests: 1, Charged: money.USD}})
	}
	body := document.Maker{}.Invoice(of, buyer)
	if len(body.Lines) != 502 {
		t.Errorf("got %d lines, want 502: 500 models, the others, and refunds", len(body.Lines))
	}
	if body.Total != 699*money.USD {
		t.Errorf("total: got %v, want $699", body.Total)
	}
	if body.Tax != nil {
		t.Errorf("tax: got %v, want none where none is configured", body.Tax)
	}
}

func TestAReceiptTellsBonusAndRateOfADeposit(t *testing.T) {
	t.Parallel()
	e, err := ledger.Deposit(ledger.Fact{ID: ids.EntryID{1}, BusinessID: "254/tx/0"}, buyer.Account,
		ledger.Sum{Token: ledger.Native, Units: 10_000_000_000, Quote: &ledger.Quote{Token: ledger.Native, Rate: money.USD,
			Source: "feed", At: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}})
	if err != nil {
		t.Fatal(err)
	}
	body, amount := document.Maker{}.Receipt(e, buyer)
	if amount != 12*money.USD {
		t.Errorf("credit: got %v, want $12 with the bonus", amount)
	}
	if len(body.Lines) != 2 {
		t.Fatalf("got %d lines, want deposit and bonus", len(body.Lines))
	}
	if body.Lines[1].Amount != 2*money.USD {
		t.Errorf("bonus: got %v, want $2", body.Lines[1].Amount)
	}
	if want := "at $1.00 for one, by feed at 2026-03-01T00:00:00Z"; body.Lines[0].Detail != want {
		t.Errorf("rate: got %q, want %q", body.Lines[0].Detail, want)
	}
}

func TestAnInvoiceHasABoundedNumberOfPlansLines(t *testing.T) {
	t.Parallel()
	var of document.Month
	for range 700 {
		of.Plans = append(of.Plans, document.PlanLine("pro", time.Time{}, time.Time{}, -money.USD))
	}
	body := document.Maker{}.Invoice(of, buyer)
	if len(body.Lines) != 501 {
		t.Errorf("got %d lines, want 501: 500 refunds, and the others", len(body.Lines))
	}
	if body.Total != -700*money.USD {
		t.Errorf("total: got %v, want -$700", body.Total)
	}
}
