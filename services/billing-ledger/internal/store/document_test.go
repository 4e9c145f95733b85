package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/document"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/passbook"
	"svc.internal/services/billing-ledger/internal/subscription"
	"svc.internal/services/billing-ledger/internal/usage"
)

// documents reads all documents of an account in a series, newest first, page by page.
func (e *env) documents(t testing.TB, id ids.AccountID, of document.Series) []document.Document {
	t.Helper()
	var all []document.Document
	w := passbook.Walk{Limit: 2}
	for {
		page, err := e.passbook().Documents(t.Context(), id, of, w)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < w.Limit {
			return all
		}
		last := page[len(page)-1]
		w.Behind = &passbook.Place{At: last.At, N: int32(last.N)}
	}
}

func TestEveryCreditHasAReceiptWithTheNextNumber(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c, other := e.consumer(t, money.USD), e.consumer(t, 2*money.USD)
	e.fold(t)
	bought := must(t)(ledger.CardTopUp(newFact(t), c.account, 20*usd, usd))
	e.charge(t, bought)
	post(t, e, bought)
	for range 2 {
		if _, _, err := e.accounts.Grant(t.Context(), c.account, usd, request(t).String(), "secret memo"); err != nil {
			t.Fatal(err)
		}
	}
	e.fold(t)
	receipts := e.documents(t, c.account, document.Receipt)
	if len(receipts) != 4 {
		t.Fatalf("got %d receipts, want 4", len(receipts))
	}
	if got := receipts[0].N; got != 5 {
		t.Errorf("the last receipt: got number %d, want 5", got)
	}
	topUp := receipts[2]
	if topUp.Amount != 20*usd {
		t.Errorf("top-up: got the credit %v, want $20", topUp.Amount)
	}
	if topUp.Body.Total != 21*usd {
		t.Errorf("top-up: got the total %v, want $21 with the fee", topUp.Body.Total)
	}
	if topUp.Body.Seller.Name != seller.Name {
		t.Errorf("top-up: got the seller %q, want %q", topUp.Body.Seller.Name, seller.Name)
	}
	html, err := receipts[0].HTML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(html), "secret memo") {
		t.Error("a receipt shows the operator's memo, want none of it")
	}
	if _, found, err := e.passbook().Document(t.Context(), other.account, topUp.Number); err != nil {
		t.Fatal(err)
	} else if found {
		t.Error("another account finds the receipt, want it not to")
	}
	e.sound(t)
}

// inMarch has an account that was given $1 and used 3 tokens in March 2026, of which one
// request of two tokens was given back in March and another is.
func inMarch(t *testing.T) (e *env, c consumer, kept, late ids.RequestID) {
	t.Helper()
	e = setup(t, unlimited)
	c = e.consumer(t, money.USD)
	first, second, third := e.reservation(t, c, 1), e.reservation(t, c, 2), e.reservation(t, c, 3)
	e.serve(t, first, 1)
	e.serve(t, second, 2)
	e.serve(t, third, 3)
	e.refundGoodwill(t, c, second.Request, 2*cent)
	e.exec(t, `UPDATE entry SET at = '2026-03-01 00:00:00.5Z'`)
	e.exec(t, `UPDATE usage_settlement SET settled_at = '2026-03-31 23:59:59.999999Z'`)
	e.exec(t, `UPDATE entry SET at = '2026-03-31 23:59:59.999999Z' WHERE kind = 'goodwill_refund'`)
	e.exec(t, `UPDATE passbook_fold SET begun_at = '2026-03-01', until_at = '2026-03-01', invoice_month = '2026-03-01'`)
	return e, c, first.Request, third.Request
}

func (e *env) refundGoodwill(t *testing.T, c consumer, request ids.RequestID, amount money.NanoUSD) {
	t.Helper()
	f := newFact(t)
	f.BusinessID = request.String()
	if _, err := e.store.Post(t.Context(), must(t)(ledger.GoodwillRefund(f, c.account, amount))); err != nil {
		t.Fatal(err)
	}
}

func TestAMonthHasOneInvoiceThatNeverChanges(t *testing.T) {
	t.Parallel()
	e, c, _, late := inMarch(t)
	april := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	e.foldUpTo(t, april.Add(-time.Microsecond), 1)
	if got := e.documents(t, c.account, document.Invoice); len(got) != 0 {
		t.Fatalf("while the month is open: got %d invoices, want 0", len(got))
	}
	e.foldUpTo(t, april.Add(time.Hour), 1)
	invoices := e.documents(t, c.account, document.Invoice)
	if len(invoices) != 1 {
		t.Fatalf("got %d invoices, want 1", len(invoices))
	}
	invoice := invoices[0]
	if invoice.Body.Month != "2026-03" {
		t.Errorf("month: got %s, want 2026-03", invoice.Body.Month)
	}
	if want := 4 * cent; invoice.Amount != want {
		t.Errorf("total: got %v, want %v: six tokens, less the two that were given back", invoice.Amount, want)
	}
	if got := invoice.String(); got != "I-2026-000001" {
		t.Errorf("number: got %s, want I-2026-000001", got)
	}

	// What is given back of the month later on is a credit note.
	e.refundGoodwill(t, c, late, 3*cent)
	e.exec(t, `UPDATE entry SET at = '2026-04-02' WHERE at > '2026-04-01'`)
	e.foldUpTo(t, time.Date(2026, 5, 1, 1, 0, 0, 0, time.UTC), 1)
	notes := e.documents(t, c.account, document.CreditNote)
	if len(notes) != 1 {
		t.Fatalf("got %d credit notes, want 1", len(notes))
	}
	if notes[0].Body.Refers != "I-2026-000001" {
		t.Errorf("credit note: got one to %s, want to I-2026-000001", notes[0].Body.Refers)
	}
	if notes[0].Amount != 3*cent {
		t.Errorf("credit note: got %v, want %v", notes[0].Amount, 3*cent)
	}
	again := e.documents(t, c.account, document.Invoice)
	if len(again) != 1 {
		t.Fatalf("a month later: got %d invoices, want the one of March", len(again))
	}
	if again[0].Amount != invoice.Amount {
		t.Errorf("the invoice: got %v, want %v as before", again[0].Amount, invoice.Amount)
	}
	e.sound(t)
}

func TestADocumentNeverChanges(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.consumer(t, money.USD)
	e.fold(t)
	refusedSQL(t, e, "permission denied", `UPDATE document SET amount = 7`)
	refusedSQL(t, e, "permission denied", `DELETE FROM document`)
	refusedSQL(t, e, "permission denied", `UPDATE passbook_line SET amount = 7`)
}

func TestANumberThatWasNotCommittedIsGivenAgain(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	e.fold(t)
	const insert = `INSERT INTO document (series, account_id, at, amount, entry_id, month, body)
		VALUES ('I', $1, '2026-04-01', 5, NULL, '2026-03-01', '{}') RETURNING number`
	number := func() (n int) {
		tx, err := e.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(t.Context(), insert, [16]byte(c.account)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 2 {
		if got := number(); got != 1 {
			t.Errorf("got number %d, want 1", got)
		}
	}
}

func TestUsageThatThePlatformPaidIsOnNoInvoice(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	orphan := e.reservation(t, c, 4)
	e.admit(t, orphan)
	e.release(t, orphan.Request)
	e.settle(t, usage.Orphaned, e.served(t, orphan, 3))
	e.exec(t, `UPDATE entry SET at = '2026-03-01'`)
	e.exec(t, `UPDATE usage_settlement SET settled_at = '2026-03-02'`)
	e.exec(t, `UPDATE passbook_fold SET begun_at = '2026-03-01', until_at = '2026-03-01', invoice_month = '2026-03-01'`)
	e.foldUpTo(t, time.Date(2026, 4, 1, 1, 0, 0, 0, time.UTC), 10)
	if got := e.documents(t, c.account, document.Invoice); len(got) != 0 {
		t.Errorf("got %d invoices, want 0", len(got))
	}
}

func TestAPlanIsOnTheInvoiceOfTheMonthInWhichItWasPaid(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	i := invoice("1", time.Hour, aMonth)
	e.hear(t, e.subscribed(t, c), i)
	back := func(id string, amount money.NanoUSD, at string) {
		r := subscription.Return{ID: id, Payment: i.Payment.ID, Amount: amount}
		if err := e.sales().GiveBack(t.Context(), r, newEntryID); err != nil {
			t.Fatal(err)
		}
		e.exec(t, `UPDATE entry SET at = $2 WHERE business_id = $1`, id, at)
	}
	back("re_1", usd, "2026-03-31 23:59:59.999999Z")
	e.exec(t, `UPDATE entry SET at = '2026-03-01' WHERE kind IN ('plan_sale', 'card_cost')`)
	e.exec(t, `UPDATE passbook_fold SET begun_at = '2026-03-01', until_at = '2026-03-01', invoice_month = '2026-03-01'`)
	back("re_2", 2*usd, "2026-04-02")
	e.foldUpTo(t, time.Date(2026, 5, 1, 1, 0, 0, 0, time.UTC), 1)

	period := i.PeriodStart.UTC().Format(time.DateOnly) + " to " + i.PeriodEnd.UTC().Format(time.DateOnly)
	want := []document.Line{{Text: "Plan pro", Detail: period, Amount: 6 * usd},
		{Text: "Refund of plan pro", Detail: period, Amount: -usd}}
	invoices := e.documents(t, c.account, document.Invoice)
	if len(invoices) != 1 {
		t.Fatalf("got %d invoices, want one of March", len(invoices))
	}
	if got := invoices[0].Body.Lines; !slices.Equal(got, want) {
		t.Errorf("lines: got %+v, want %+v", got, want)
	}
	if got := invoices[0].Amount; got != 5*usd {
		t.Errorf("total: got %v, want $5", got)
	}
	notes := e.documents(t, c.account, document.CreditNote)
	if len(notes) != 1 {
		t.Fatalf("got %d credit notes, want one of what went back in April", len(notes))
	}
	if got, want := notes[0].Body.Refers, invoices[0].String(); got != want {
		t.Errorf("credit note: got one to %s, want to %s", got, want)
	}
	if got := notes[0].Body.Total; got != -2*usd {
		t.Errorf("credit note: got %v, want -$2", got)
	}
	e.sound(t)
	e.exec(t, `UPDATE plan_invoice SET account_id = $1`, e.consumer(t, 0).account)
	report, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	if !named(report, "an invoice has what its month used and paid for plans", "2026-03-01") {
		t.Errorf("a payment of another account: got %+v, want drift of March's invoice", report.Invariants)
	}
}
