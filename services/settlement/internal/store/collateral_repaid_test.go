package store_test

import (
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/slash"
	"svc.internal/services/settlement/internal/store"
)

// until works until a refund of a provider is in a state.
func (m *market) until(t *testing.T, want refund.State) refund.Refund {
	t.Helper()
	refunds := store.Refunds{Positions: m.positions[0]}
	for range 200 {
		last, err := refunds.Last(t.Context(), m.providers[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(last) == 1 && last[0].State == want {
			return last[0]
		}
		m.work(0)
		m.pass(t, time.Minute)
	}
	t.Fatalf("the refund never is %s", want)
	return refund.Refund{}
}

// ask has a provider ask for its collateral, once it is known.
func (m *market) ask(t *testing.T) refund.Refund {
	t.Helper()
	for m.count(`SELECT count(*) FROM card_collateral WHERE free_nano_usd > 0`) == 0 {
		m.work(0)
		m.pass(t, time.Minute)
	}
	r, err := m.payers[0].Store.Ask(t.Context(), refund.ID(newID(t)), m.providers[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The card does not take what was refunded, each time after the refund was paid.
func TestWhatACardDidNotTakeIsPaidAgain(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 7)
	id := m.providers[0]
	m.books.pay(id, 4_000)
	m.ask(t)
	m.pass(t, refund.Wait)
	for attempt := 1; attempt <= 3; attempt++ {
		paid := m.until(t, refund.Paid)
		if got := paid.Parts[0].CardAttempt; got != attempt {
			t.Errorf("attempt: got %d, want %d", got, attempt)
		}
		if got := paid.Parts[0].PaidBy(); got != "card" {
			t.Errorf("paid by: got %q, want card", got)
		}
		m.books.fail(id)
		m.until(t, refund.Repaying)
		if n := m.count(`SELECT count(*) FROM provider_suspension WHERE provider_id = $1 AND cause = 'refund' AND holds`,
			id); n != 0 {
			t.Errorf("suspended for a refund that is paid again: got %d, want 0", n)
		}
	}
	m.until(t, refund.Paid)
	if got := m.books.of(id).pending; got != 0 {
		t.Errorf("on its way back at the end: got %v, want nothing", got)
	}
	m.audited(t)
}

func TestARefundBegunBesideOneThatIsPaidAgain(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 8)
	id := m.providers[0]
	m.books.pay(id, 4_000)
	m.ask(t)
	m.pass(t, refund.Wait)
	m.until(t, refund.Paid)
	m.books.fail(id)
	m.until(t, refund.Repaying)
	m.books.pay(id, 2_000)
	m.books.stuck = true
	m.ask(t)
	if n := m.count(`SELECT count(*) FROM collateral_refund WHERE state IN ('asked', 'repaying')`); n != 2 {
		t.Errorf("refunds beside each other: got %d, want 2", n)
	}
	m.books.stuck = false
	m.settle()
	if got, want := m.books.of(id).out, 6_000*slash.Cent; got != want {
		t.Errorf("given back: got %v, want %v", got, want)
	}
	m.audited(t)
}

// An operator confirms what the bank pays: the parts of which the books were told, once.
func TestAnOperatorConfirmsWhatTheBankPays(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 9)
	m.books.pay(m.providers[0], 4_000)
	m.books.bank = true
	r := m.ask(t)
	confirm := func(reference string) (refund.Refund, error) {
		t.Helper()
		for {
			got, err := m.payers[0].ConfirmBank(t.Context(), r.ID, "operator:anna", reference)
			if err == nil || !isLost(err) {
				return got, err
			}
		}
	}
	if _, err := confirm("SEPA 1"); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("before anything waits: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	m.pass(t, refund.Wait)
	for m.count(`SELECT count(*) FROM collateral_refund_part WHERE state = 'bank'`) == 0 {
		m.work(0)
		m.pass(t, time.Minute)
	}
	store := store.Refunds{Positions: m.positions[0]}
	if _, err := store.ConfirmBank(t.Context(), r.ID, nil, "operator:anna", "SEPA 1"); !fault.Is(err,
		fault.TransitionNotAllowed) {
		t.Errorf("a part that the books do not know: got the error %v, want the reason %s", err,
			fault.TransitionNotAllowed)
	}
	for range 2 {
		if _, err := confirm("SEPA 1"); err != nil {
			t.Fatal(err)
		}
	}
	wantActs(t, m.pool, "operator:anna confirm_bank_refund "+r.ID.String())
	if _, err := confirm("SEPA 2"); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("another transfer: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	if got := m.until(t, refund.Paid).Parts[0].PaidBy(); got != "bank" {
		t.Errorf("paid by: got %q, want bank", got)
	}
	if got, want := m.books.of(m.providers[0]).out, 4_000*slash.Cent; got != want {
		t.Errorf("given back: got %v, want %v", got, want)
	}
	m.audited(t)
}
