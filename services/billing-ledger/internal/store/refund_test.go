package store_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// balance sums an account of the ledger: credits less debits.
func (e *env) balance(t testing.TB, kind ledger.AccountKind, owner [16]byte) money.NanoUSD {
	t.Helper()
	return money.NanoUSD(scan[int64](t, e, `SELECT coalesce(sum(amount), 0)::bigint FROM ledger_leg
		WHERE account_kind = $1 AND ($2::uuid = '00000000-0000-0000-0000-000000000000' OR owner_id = $2)`, string(kind),
		owner))
}

// settledFor has a request settled for ten cents of which seven are paid out.
func (e *env) settledFor(t testing.TB, c consumer) (ids.RequestID, ids.ProviderID) {
	t.Helper()
	reservation := e.reservation(t, c, 10)
	e.admitOne(t, reservation, hold.Admitted)
	d := e.served(t, reservation, 10)
	e.settle(t, usage.Settled, d)
	return reservation.Request, d.Event.Provider
}

// Hostile test 51, its first half.
func TestARequestIsRefundedOnceAndNeverAboveWhatWasPaid(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	request, _ := e.settledFor(t, c)
	replicas := e.replicas(t, 3, nil)
	var callers sync.WaitGroup
	var refunded, refused atomic.Int64
	for i := range 60 {
		cause := []usage.RefundCause{usage.ProviderFault, usage.Goodwill}[i%2]
		callers.Go(func() {
			switch _, err := replicas[i%3].Refund(t.Context(), entryID(t), request, cause, "test"); {
			case err == nil:
				refunded.Add(1)
			case errors.Is(err, usage.ErrRefunded):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if refunded.Load() != 30 {
		t.Errorf("%d are told that it is refunded and %d that it was for another cause: refunded.Load(): got %d, want 30",
			refunded.Load(), refused.Load(), refunded.Load())
	} else if refused.Load() != 30 {
		t.Errorf("%d are told that it is refunded and %d that it was for another cause: refused.Load(): got %d, want 30",
			refunded.Load(), refused.Load(), refused.Load())
	}
	e.wantWallet(t, c, money.USD, 0)
	if n := scan[int64](t, e, `SELECT count(*) FROM entry WHERE kind IN ('request_refund', 'goodwill_refund')`); n != 1 {
		t.Errorf("refunds posted: got %d, want 1", n)
	}
	want := map[ledger.AccountKind]money.NanoUSD{ledger.Accrued: 7 * cent, ledger.UsageMargin: 3 * cent,
		ledger.Goodwill: -money.USD - 10*cent}
	if scan[string](t, e, `SELECT kind FROM entry WHERE kind LIKE '%refund'`) == "request_refund" {
		want = map[ledger.AccountKind]money.NanoUSD{ledger.Accrued: 0, ledger.UsageMargin: 0, ledger.Goodwill: -money.USD}
	}
	for kind, amount := range want {
		if got := e.balance(t, kind, [16]byte{}); got != amount {
			t.Errorf("%s: got %s, want %s", kind, got, amount)
		}
	}
	refusedSQL(t, e, "entry_refunds_once", `INSERT INTO entry (id, kind, business_id)
		SELECT gen_random_uuid(), CASE kind WHEN 'request_refund' THEN 'goodwill_refund' ELSE 'request_refund' END,
			business_id
		FROM entry WHERE kind LIKE '%refund'`)
	e.sound(t)
}

// Hostile test 51, its second half: what the provider was paid already is its
// debt.
func TestARefundAfterThePayoutIsTheProvidersDebt(t *testing.T) {
	for name, tc := range map[string]struct {
		batched, paid                int64 // in cents
		accrued, payable, receivable int64
	}{
		"nothing was batched":  {0, 0, 0, 0, 0},
		"a part was batched":   {5, 0, 0, 0, 0},
		"all was batched":      {7, 0, 0, 0, 0},
		"a part was paid out":  {7, 4, 0, 0, 4},
		"all was paid out":     {7, 7, 0, 0, 7},
		"what is left is used": {5, 5, 0, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, money.USD)
			request, provider := e.settledFor(t, c)
			if tc.batched > 0 {
				e.post(t)(ledger.EarningsBatch(newFact(t), provider, money.NanoUSD(tc.batched)*cent, 0))
			}
			if tc.paid > 0 {
				e.post(t)(ledger.EarningsCredit(newFact(t), provider, c.account, money.NanoUSD(tc.paid)*cent))
			}
			if _, err := e.store.Refund(t.Context(), entryID(t), request, usage.ProviderFault, ""); err != nil {
				t.Fatal(err)
			}
			for kind, want := range map[ledger.AccountKind]int64{
				ledger.Accrued: tc.accrued, ledger.Payable: tc.payable, ledger.ProviderReceivable: -tc.receivable,
			} {
				if got := e.balance(t, kind, provider); got != money.NanoUSD(want)*cent {
					t.Errorf("%s: got %s, want %d cents", kind, got, want)
				}
			}
			e.wantWallet(t, c, money.USD+money.NanoUSD(tc.paid)*cent, 0)
			e.sound(t)
		})
	}
}

// post takes an entry as it was composed.
func (e *env) post(t testing.TB) func(ledger.Entry, error) {
	return func(entry ledger.Entry, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.store.Post(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatWasNotChargedIsNotRefunded(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 2*cent)
	free, open, short := e.free(t, c), e.reservation(t, c, 0), e.reservation(t, c, 2)
	e.admit(t, free, open, short)
	e.settle(t, usage.Settled, e.served(t, free, 5))
	d := e.served(t, short, 2)
	d.Event.Billable.Prompt = 3
	e.settle(t, usage.Settled, d)
	for name, tc := range map[string]struct {
		request ids.RequestID
		cause   usage.RefundCause
		want    error
	}{
		"unknown":         {request(t), usage.Goodwill, usage.ErrNothingCharged},
		"free":            {free.Request, usage.ProviderFault, usage.ErrNothingCharged},
		"open":            {open.Request, usage.Goodwill, usage.ErrNothingCharged},
		"payout is above": {short.Request, usage.ProviderFault, usage.ErrPaidInPart},
	} {
		if _, err := e.store.Refund(t.Context(), entryID(t), tc.request, tc.cause, ""); !errors.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want %v", name, err, tc.want)
		}
	}
	if _, err := e.store.Refund(t.Context(), entryID(t), short.Request, usage.Goodwill, ""); err != nil {
		t.Error(err)
	}
	e.wantWallet(t, c, 2*cent, 0)
	e.sound(t)
}
