package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/payable"
	"svc.internal/services/billing-ledger/internal/usage"
)

func (e *env) payables() *payable.Payables {
	return &payable.Payables{Store: e.store, NewEntry: func() (ids.EntryID, error) {
		return ids.NewEntry(time.Now(), rand.Reader)
	}}
}

// owed makes a vendor that is owed 70 cents for each hundred tokens.
func (e *env) owed(t testing.TB, tokens int64) ids.ProviderID {
	t.Helper()
	c := e.consumer(t, money.NanoUSD(tokens+10)*cent)
	reservation := e.gatewayModel(t, c)
	reservation.MaxCompletionTokens, reservation.Amount = tokens, money.NanoUSD(tokens+10)*cent
	e.admitOne(t, reservation, hold.Admitted)
	d := e.servedByVendor(t, reservation, 0, 0, tokens)
	e.settle(t, usage.Settled, d)
	e.wantBalance(t, ledger.VendorPayable, d.Event.Provider, money.NanoUSD(tokens)*7*cent/10)
	return d.Event.Provider
}

func as(t testing.TB, name string) context.Context { return actor.WithOperator(t.Context(), name) }

// bought pays an invoice, and fails the test unless the payment has the state want.
func (e *env) bought(t testing.TB, by string, i payable.Invoice, want payable.State) payable.Payment {
	t.Helper()
	p, err := e.payables().Pay(as(t, by), i)
	if err != nil {
		t.Fatal(err)
	}
	if p.State() != want {
		t.Fatalf("state of invoice %s: got %s, want %s", i.Number, p.State(), want)
	}
	return p
}

// refused fails the test unless an invoice is refused as not allowed, because of an error.
func (e *env) refused(t testing.TB, by string, i payable.Invoice, because error) {
	t.Helper()
	_, err := e.payables().Pay(as(t, by), i)
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	if !errors.Is(err, because) {
		t.Errorf("got the error %v, want %v", err, because)
	}
}

func bill(vendor ids.ProviderID, number payable.Number, amount, counted money.NanoUSD) payable.Invoice {
	return payable.Invoice{Vendor: vendor, Number: number, Amount: amount, Counted: counted, Note: "November"}
}

func (e *env) entries(t testing.TB) int64 {
	t.Helper()
	return scan[int64](t, e, `SELECT count(*) FROM entry WHERE kind IN ('vendor_paid', 'vendor_corrected')`)
}

func TestAnInvoiceIsPaidOnceHoweverOftenItIsSaid(t *testing.T) {
	e := setup(t, unlimited)
	vendor := e.owed(t, 100)
	invoice := bill(vendor, "INV-7", 70*cent, 70*cent)
	first := e.bought(t, "alice@1", invoice, payable.Paid)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			again, err := e.payables().Pay(as(t, "bob@2"), invoice)
			if err != nil {
				t.Error(err)
			}
			if again != first {
				t.Errorf("said again: got %+v, want the first answer %+v", again, first)
			}
		})
	}
	calls.Wait()
	e.refused(t, "alice@1", bill(vendor, "INV-7", 60*cent, 60*cent), payable.ErrDiffers)
	e.refused(t, "alice@1", bill(vendor, "INV-7", 70*cent, 60*cent), payable.ErrDiffers)
	if got := e.entries(t); got != 1 {
		t.Errorf("entries: got %d, want 1", got)
	}
	if acts := scan[int64](t, e, `SELECT count(*) FROM operator_action WHERE action = 'pay_vendor' AND subject = $1`,
		[16]byte(vendor)); acts != 1 {
		t.Errorf("acts of operators: got %d, want 1", acts)
	}
	e.wantBalance(t, ledger.VendorPayable, vendor, 0)
	e.wantBalance(t, ledger.Bank, [16]byte{}, 70*cent)
	e.sound(t)
}

func TestTwoPaymentsAtOnceTakeNoMoreThanIsOwed(t *testing.T) {
	e := setup(t, unlimited)
	vendor := e.owed(t, 100)
	e.refused(t, "alice@1", bill(vendor, "A", 71*cent, 71*cent), payable.ErrNotOwed)
	var calls sync.WaitGroup
	outcomes := make(chan error, 4)
	for n := range 4 {
		calls.Go(func() {
			_, err := e.payables().Pay(as(t, "alice@1"), bill(vendor, payable.Number(fmt.Sprint("N", n)), 40*cent, 40*cent))
			outcomes <- err
		})
	}
	calls.Wait()
	close(outcomes)
	var paid int
	for err := range outcomes {
		if err == nil {
			paid++
		} else if !errors.Is(err, payable.ErrNotOwed) {
			t.Errorf("got the error %v, want %v", err, payable.ErrNotOwed)
		}
	}
	if paid != 1 {
		t.Errorf("payments of 40 of 70 cents: got %d, want 1", paid)
	}
	e.wantBalance(t, ledger.VendorPayable, vendor, 30*cent)
	e.sound(t)
}

func TestAnInvoiceThatDiffersFromTheCountMovesTheMargin(t *testing.T) {
	for name, amount := range map[string]money.NanoUSD{"more": 75 * cent, "less": 60 * cent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, unlimited)
			vendor := e.owed(t, 100)
			margin := e.balance(t, ledger.UsageMargin, [16]byte{})
			p := e.bought(t, "alice@1", bill(vendor, "INV-7", amount, 70*cent), payable.Paid)
			if p.Correction() != amount-70*cent {
				t.Errorf("correction: got %s, want %s", p.Correction(), amount-70*cent)
			}
			e.wantBalance(t, ledger.VendorPayable, vendor, 0)
			e.wantBalance(t, ledger.Bank, [16]byte{}, amount)
			e.wantBalance(t, ledger.UsageMargin, [16]byte{}, margin+70*cent-amount)
			e.bought(t, "alice@1", bill(vendor, "INV-7", amount, 70*cent), payable.Paid)
			if got := e.entries(t); got != 2 {
				t.Errorf("entries: got %d, want a payment and a correction", got)
			}
			e.sound(t)
		})
	}
}

// An invoice of 14,000 dollars is above what one operator may pay.
func TestALargeInvoiceNeedsTwoPersonsWhoSayTheSame(t *testing.T) {
	e := setup(t, unlimited)
	vendor := e.owed(t, 2_000_000)
	const all = 14_000 * money.USD
	invoice := bill(vendor, "INV-7", all, all)
	e.refused(t, "bot", invoice, payable.ErrMachine)
	wrong := bill(vendor, "INV-7", 13_000*money.USD, 13_000*money.USD)
	e.bought(t, "alice@1", wrong, payable.Waiting)
	e.bought(t, "alice@1", invoice, payable.Waiting) // she sees her slip
	e.bought(t, "bob@2", wrong, payable.Waiting)     // he makes the same slip, and asks again
	e.bought(t, "alice@1", invoice, payable.Waiting)
	e.bought(t, "alice@1", invoice, payable.Waiting)
	if got := e.entries(t); got != 0 {
		t.Errorf("entries while it waits: got %d, want none", got)
	}
	p := e.bought(t, "bob@2", invoice, payable.Paid)
	if p.AskedBy != "operator:alice@1" {
		t.Errorf("asked by: got %s, want alice", p.AskedBy)
	}
	if p.PaidBy != "operator:bob@2" {
		t.Errorf("paid by: got %s, want bob", p.PaidBy)
	}
	if again := e.bought(t, "carol@3", invoice, payable.Paid); again != p {
		t.Errorf("said again: got %+v, want %+v", again, p)
	}
	e.wantBalance(t, ledger.VendorPayable, vendor, 0)
	e.sound(t)
}

// The count of a small invoice may be large, and that much is taken from what the vendor is owed.
func TestALargeCountNeedsTwoPersonsToo(t *testing.T) {
	e := setup(t, unlimited)
	vendor := e.owed(t, 2_000_000)
	e.bought(t, "alice@1", bill(vendor, "INV-7", money.USD, 14_000*money.USD), payable.Waiting)
	e.wantBalance(t, ledger.VendorPayable, vendor, 14_000*money.USD)
	e.sound(t)
}

// Next to nothing is counted of each, so what is owed would hold for ever.
func TestNoOnePersonOrMachineBooksMoneyOutByCorrections(t *testing.T) {
	e := setup(t, unlimited)
	vendor := e.owed(t, 100)
	for n := range 3 {
		number := payable.Number(fmt.Sprint("F-", n))
		e.refused(t, "bot", bill(vendor, number, payable.One, 1), payable.ErrMachine)
		e.bought(t, "alice@1", bill(vendor, number, payable.One, 1), payable.Waiting)
		e.bought(t, "alice@1", bill(vendor, number, payable.One, 1), payable.Waiting)
	}
	// In small parts, the first is all that a machine corrects in a day.
	e.bought(t, "bot", bill(vendor, "G-0", payable.MaxCorrection, 1), payable.Paid)
	e.refused(t, "bot", bill(vendor, "G-1", payable.MaxCorrection, 1), payable.ErrMachine)
	e.bought(t, "alice@1", bill(vendor, "G-1", payable.MaxCorrection, 1), payable.Waiting)
	e.wantBalance(t, ledger.Bank, [16]byte{}, payable.MaxCorrection)
	e.bought(t, "bob@2", bill(vendor, "F-0", payable.One, 1), payable.Paid)
	e.sound(t)
}

// 14,000 dollars in parts of 5,000.
func TestALargeInvoiceIsNotPaidByOneInSmallParts(t *testing.T) {
	e := setup(t, unlimited)
	vendor, other := e.owed(t, 2_000_000), e.owed(t, 2_000_000)
	part := func(of ids.ProviderID, number payable.Number) payable.Invoice {
		return bill(of, number, payable.One/2, payable.One/2)
	}
	e.bought(t, "alice@1", part(vendor, "P-1"), payable.Paid)
	e.bought(t, "bot", part(vendor, "P-2"), payable.Paid)
	e.refused(t, "bot", bill(vendor, "P-3", cent, cent), payable.ErrMachine)
	e.bought(t, "alice@1", bill(vendor, "P-3", cent, cent), payable.Waiting)
	e.bought(t, "bob@2", bill(vendor, "P-3", cent, cent), payable.Paid)
	e.bought(t, "bot", part(other, "P-1"), payable.Paid)
	e.exec(t, `UPDATE vendor_invoice SET paid_at = paid_at - interval '23 hours 59 minutes'`)
	e.refused(t, "bot", bill(vendor, "P-4", cent, cent), payable.ErrMachine)
	e.exec(t, `UPDATE vendor_invoice SET paid_at = paid_at - interval '1 minute'`)
	e.bought(t, "bot", bill(vendor, "P-4", cent, cent), payable.Paid)
	e.sound(t)
}

// All of them see what the others paid, because each waits for the lock on the vendor's account.
func TestPartsThatAreSaidAtOncePassNoBoundTogether(t *testing.T) {
	e := setup(t, unlimited)
	vendor := e.owed(t, 2_000_000)
	var calls sync.WaitGroup
	states := make(chan payable.State, 4)
	for n := range 4 {
		calls.Go(func() {
			p, err := e.payables().Pay(as(t, "alice@1"),
				bill(vendor, payable.Number(fmt.Sprint("N", n)), 3_500*money.USD, 3_500*money.USD))
			if err != nil {
				t.Error(err)
			}
			states <- p.State()
		})
	}
	calls.Wait()
	close(states)
	var paid int
	for state := range states {
		if state == payable.Paid {
			paid++
		}
	}
	if paid != 2 {
		t.Errorf("parts of 3,500 dollars that one operator paid: got %d, want 2", paid)
	}
	e.sound(t)
}

func TestVendorsAreListedWithWhatTheyAreOwedAndWerePaid(t *testing.T) {
	e := setup(t, unlimited)
	vendors := []ids.ProviderID{e.owed(t, 100), e.owed(t, 200), e.owed(t, 300)}
	slices.SortFunc(vendors, func(a, b ids.ProviderID) int { return slices.Compare(a[:], b[:]) })
	e.pushBack(t, 2)
	e.sealDue(t) // so that what is owed is a snapshot and what was recorded since
	e.bought(t, "alice@1", bill(vendors[1], "ONE", 20*cent, 30*cent), payable.Paid)
	last := e.bought(t, "alice@1", bill(vendors[1], "TWO", 10*cent, 10*cent), payable.Paid)
	var got []payable.Balance
	var after ids.ProviderID
	for more := true; more; {
		var page []payable.Balance
		var err error
		if page, more, err = e.payables().Balances(t.Context(), after, 2); err != nil {
			t.Fatal(err)
		}
		got, after = append(got, page...), page[len(page)-1].Vendor
	}
	if len(got) != 3 {
		t.Fatalf("vendors: got %+v, want 3", got)
	}
	for i, b := range got {
		if b.Vendor != vendors[i] {
			t.Errorf("vendor %d: got %s, want %s", i, b.Vendor, vendors[i])
		}
		e.wantBalance(t, ledger.VendorPayable, b.Vendor, b.Owed)
	}
	if got[1].Paid != 30*cent {
		t.Errorf("paid: got %s, want %s", got[1].Paid, 30*cent)
	}
	if got[1].Last == nil {
		t.Fatal("the last payment: got none, want it")
	}
	if *got[1].Last != last {
		t.Errorf("the last payment: got %+v, want %+v", *got[1].Last, last)
	}
	if got[0].Last != nil {
		t.Errorf("the last payment of a vendor that has none: got %+v, want none", got[0].Last)
	}
	if _, _, err := e.payables().Balances(t.Context(), after, payable.MaxPage+1); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a page beyond the bound: got the error %v, want %s", err, fault.InvalidValue)
	}
}

// There is service in the last month, a payment in that month, and service since.
func TestWhatWasCountedLastMonthIsShownForItsInvoice(t *testing.T) {
	e := setup(t, unlimited)
	vendor := e.owed(t, 100)
	e.bought(t, "alice@1", bill(vendor, "EARLY", 20*cent, 30*cent), payable.Paid)
	e.pushBack(t, time.Now().UTC().Day())
	e.sealDue(t)
	reservation := e.gatewayModel(t, e.consumer(t, money.USD))
	e.admitOne(t, reservation, hold.Admitted)
	d := e.servedByVendor(t, reservation, 0, 0, 10)
	d.Event.Provider = vendor
	sum := d.Event.Hash()
	d.Payload = sum[:]
	e.settle(t, usage.Settled, d)
	page, _, err := e.payables().Balances(t.Context(), ids.ProviderID{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := page[0].LastMonth; got != 70*cent {
		t.Errorf("counted last month: got %s, want %s", got, 70*cent)
	}
	if got, want := page[0].Owed, (70-30+7)*cent; got != want {
		t.Errorf("owed: got %s, want %s", got, want)
	}
}

func TestOfManyWaitingInvoicesTheOldestAreListed(t *testing.T) {
	e := setup(t, unlimited)
	vendor := e.owed(t, 2_000_000)
	for n := range payable.MaxWaiting + 1 {
		e.bought(t, "alice@1", bill(vendor, payable.Number(fmt.Sprintf("N%02d", n)), 11_000*money.USD, 11_000*money.USD),
			payable.Waiting)
	}
	page, _, err := e.payables().Balances(t.Context(), ids.ProviderID{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(page[0].Waiting); n != payable.MaxWaiting {
		t.Fatalf("waiting: got %d, want %d", n, payable.MaxWaiting)
	}
	if got := page[0].Waiting[0].Number; got != "N00" {
		t.Errorf("the first that waits: got %s, want the oldest", got)
	}
}

func TestWhoIsNoVendorIsPaidNothing(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	_, provider := e.settledFor(t, c)
	_, err := e.payables().Pay(as(t, "alice@1"), bill(provider, "INV-7", cent, cent))
	if !fault.Is(err, fault.ProviderNotFound) {
		t.Errorf("got the error %v, want %s", err, fault.ProviderNotFound)
	}
}

func TestVerifyNamesAPaymentWithoutItsInvoice(t *testing.T) {
	for name, plant := range map[string]string{
		"no invoice":     `DELETE FROM vendor_invoice`,
		"another amount": `UPDATE vendor_invoice SET amount = amount + 1`,
		"no correction": `DELETE FROM posting WHERE entry_kind = 'vendor_corrected';
			DELETE FROM entry WHERE kind = 'vendor_corrected'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, unlimited)
			vendor := e.owed(t, 100)
			e.bought(t, "alice@1", bill(vendor, "INV-7", 65*cent, 70*cent), payable.Paid)
			e.exec(t, `DO $$ BEGIN `+plant+`; END $$`)
			report, err := audit.Run(t.Context(), e.store)
			if err != nil {
				t.Fatal(err)
			}
			if !named(report, "each invoice of a vendor has its entries, and no entry is without it", vendor.String()+"/INV-7") {
				t.Errorf("drift is not named: %+v", report.Invariants)
			}
		})
	}
}
