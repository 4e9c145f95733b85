package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
	"svc.internal/services/billing-ledger/internal/usage"
)

// monthOf is a ledger whose plans' month has been over for some time.
type monthOf struct {
	*env
	t     *testing.T
	at    time.Time
	month ledger.Month
	buyer consumer
}

func newMonth(t *testing.T) *monthOf {
	t.Helper()
	e := setup(t, unlimited)
	at := time.Now().UTC().AddDate(0, 0, -40)
	return &monthOf{env: e, t: t, at: at, month: ledger.MonthOf(at), buyer: e.subscriber(t, 0, roomy)}
}

// serves has a provider serve a request of the month to a subscriber: it earns seven cents.
func (m *monthOf) serves(c consumer, provider ids.ProviderID) ids.RequestID {
	m.t.Helper()
	reservation := m.standard(m.t, c, 10)
	reservation.Request = requestAt(m.t, m.at)
	m.admitOne(m.t, reservation, hold.Admitted)
	m.settle(m.t, usage.Settled, m.servedBy(m.t, reservation, provider))
	return reservation.Request
}

// seals has all of that recorded two days ago, and seals the day. It returns the day.
func (m *monthOf) seals() time.Time {
	m.t.Helper()
	m.pushBack(m.t, 2)
	err := pgx.BeginFunc(m.t.Context(), m.owner, func(tx pgx.Tx) error {
		if _, err := tx.Exec(m.t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(m.t.Context(), `UPDATE held_earning SET held_at = held_at - interval '2 days'`)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return m.sealDue(m.t)[0].Day
}

func (m *monthOf) sells(price money.NanoUSD) {
	m.t.Helper()
	post(m.t, m.env, must(m.t)(ledger.PlanSale(newFact(m.t), m.month, price)))
}

func (m *monthOf) close(through time.Time, pool, earned money.NanoUSD, providers int64) (posting.Closed, error) {
	m.t.Helper()
	return m.store.CloseMonth(m.t.Context(), posting.Month{Month: m.month, Through: through, Pool: pool, Earned: earned,
		Providers: providers}, func() (ids.EntryID, error) { return entryID(m.t), nil })
}

// left is what stands on an account in the month's book.
func (m *monthOf) left(kind ledger.AccountKind) money.NanoUSD {
	m.t.Helper()
	return money.NanoUSD(scan[int64](m.t, m.env, `SELECT coalesce(sum(amount), 0)::bigint FROM ledger_leg
		WHERE account_kind = $1 AND book = $2`, string(kind), string(m.month)))
}

func TestAMonthIsClosedOnceByWhatTheLedgerCounts(t *testing.T) {
	m := newMonth(t)
	a, b := newProvider(t), newProvider(t)
	m.sells(12 * cent)
	m.serves(m.buyer, a)
	m.serves(m.buyer, a)
	m.serves(m.buyer, b)
	through := m.seals()
	for name, said := range map[string]struct {
		pool, earned money.NanoUSD
		providers    int64
	}{
		"another pool": {13 * cent, 21 * cent, 2}, "other earnings": {12 * cent, 20 * cent, 2},
		"another provider": {12 * cent, 21 * cent, 3},
	} {
		if _, err := m.close(through, said.pool, said.earned, said.providers); !errors.Is(err, posting.ErrDiffers) {
			t.Errorf("%s: got the error %v, want %v", name, err, posting.ErrDiffers)
		}
	}
	if _, err := m.close(through.AddDate(0, 0, 2), 12*cent, 21*cent, 2); !errors.Is(err, earning.ErrDayOpen) {
		t.Errorf("an open day: got the error %v, want %v", err, earning.ErrDayOpen)
	}
	var closers sync.WaitGroup
	for range 6 {
		closers.Go(func() {
			closed, err := m.close(through, 12*cent, 21*cent, 2)
			if err != nil {
				t.Errorf("close: %v", err)
			} else if closed.Paid != 12*cent {
				t.Errorf("paid: got %s, want 0.12", closed.Paid)
			}
		})
	}
	closers.Wait()
	shares, err := m.store.MonthShares(t.Context(), m.month, ids.ProviderID{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	var paid money.NanoUSD
	for _, s := range shares {
		paid += s.Paid
	}
	if paid != 12*cent {
		t.Errorf("shares sum to %s, want 0.12", paid)
	}
	for _, kind := range []ledger.AccountKind{ledger.PlanPool, ledger.PlanHeld, ledger.PlanAccrual} {
		if got := m.left(kind); got != 0 {
			t.Errorf("%s: got %s, want nothing left", kind, got)
		}
	}
	if _, err := m.store.Post(t.Context(), must(t)(ledger.PlanSale(newFact(t), m.month, cent))); !errors.Is(err,
		ledger.ErrMonthClosed) {
		t.Errorf("a sale behind the close: got the error %v, want %v", err, ledger.ErrMonthClosed)
	}
	m.sound(t)
}

// What is held of one provider's earnings stops nobody's payment, and is paid when it is
// released.
func TestWhatIsHeldOfAMonthIsPaidWhenItIsReleased(t *testing.T) {
	m := newMonth(t)
	owner := m.onPlan(t, m.consumer(t, 0), roomy)
	own, other := m.owned(t, owner), newProvider(t)
	m.sells(11 * cent)
	held := []ids.RequestID{m.serves(owner, own), m.serves(owner, own)}
	m.serves(m.buyer, other)
	through := m.seals()
	closed, err := m.close(through, 11*cent, 21*cent, 2)
	if err != nil {
		t.Fatal(err)
	}
	var waits money.NanoUSD
	for _, s := range closed.Shares {
		waits += s.Withheld - s.WithheldPaid
	}
	if got := -m.left(ledger.PlanAccrual); got != waits {
		t.Errorf("accrual of the closed month: got %s, want %s", got, waits)
	}
	if _, err := m.store.ShareReleased(t.Context(), entryID(t), held[0]); !errors.Is(err, posting.ErrNotReleased) {
		t.Errorf("what is held still: got the error %v, want %v", err, posting.ErrNotReleased)
	}
	for _, request := range held {
		if _, err := m.store.ReleaseHeld(t.Context(), []ids.RequestID{request}, "looked at"); err != nil {
			t.Fatal(err)
		}
		first, err := m.store.ShareReleased(t.Context(), entryID(t), request)
		if err != nil {
			t.Fatal(err)
		}
		again, err := m.store.ShareReleased(t.Context(), entryID(t), request)
		if err != nil {
			t.Fatal(err)
		}
		if again != first {
			t.Errorf("again: got the entry %v, want the first, %v", again, first)
		}
	}
	balances, err := m.store.ProviderBalances(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	var want money.NanoUSD
	for _, s := range closed.Shares {
		if s.Provider == own {
			want = s.Paid
		}
	}
	if balances.Payable != want {
		t.Errorf("payable: got %s, want the whole share, %s", balances.Payable, want)
	}
	for _, kind := range []ledger.AccountKind{ledger.PlanPool, ledger.PlanHeld, ledger.PlanAccrual} {
		if got := m.left(kind); got != 0 {
			t.Errorf("%s: got %s, want nothing left", kind, got)
		}
	}
	m.sound(t)
}

func TestWhatIsSettledBehindTheCloseIsPaidWhole(t *testing.T) {
	m := newMonth(t)
	provider := newProvider(t)
	m.sells(cent)
	m.serves(m.buyer, provider)
	through := m.seals()
	if _, err := m.close(through, cent, 7*cent, 1); err != nil {
		t.Fatal(err)
	}
	m.serves(m.buyer, provider)
	late := must(t)(ledger.PlanLateShare(newFact(t), provider, m.month, 7*cent, 0))
	post(t, m.env, late)
	if got := m.left(ledger.PlanAccrual); got != 0 {
		t.Errorf("accrual: got %s, want nothing left", got)
	}
	balances, err := m.store.ProviderBalances(t.Context(), provider)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := balances.Payable, 8*cent; got != want {
		t.Errorf("payable: got %s, want %s", got, want)
	}
	m.sound(t)
}

func TestBalancesSayWhereEarningsStand(t *testing.T) {
	m := newMonth(t)
	owner := m.onPlan(t, m.consumer(t, money.USD), roomy)
	own := m.owned(t, owner)
	m.serves(owner, own)
	paid := m.reservation(t, owner, 10)
	paid.Billing = hold.PayAsYouGo
	m.admitOne(t, paid, hold.Admitted)
	m.settle(t, usage.Settled, m.servedBy(t, paid, own))
	got, err := m.store.ProviderBalances(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	if got.Accrued != 7*cent {
		t.Errorf("accrued: got %s, want 0.07", got.Accrued)
	}
	want := earning.Pending{Month: string(m.month), Amount: 7 * cent, Held: 7 * cent}
	if len(got.Pending) != 1 {
		t.Fatalf("pending months: got %d, want 1", len(got.Pending))
	}
	if got.Pending[0] != want {
		t.Errorf("pending: got %+v, want %+v", got.Pending[0], want)
	}
}

func TestVerifyNamesMonthsThatDoNotAddUp(t *testing.T) {
	const owes = "what a closed month still owes is what waits of its shares and what came late"
	for _, tc := range []struct{ invariant, plant string }{
		{owes, `UPDATE closed_share SET withheld_paid = withheld_paid - 1`},
		{owes, `UPDATE posting SET amount = amount + 1 WHERE account_kind = 'x:plan_accrual' AND amount > 0`},
		{"the shares of a closed month are its sums", `UPDATE closed_share SET earned = earned + 1`},
		{"the shares of a closed month are its sums", `DELETE FROM closed_share`},
	} {
		m := newMonth(t)
		owner := m.onPlan(t, m.consumer(t, 0), roomy)
		own := m.owned(t, owner)
		m.sells(5 * cent)
		m.serves(owner, own)
		m.serves(m.buyer, own)
		if _, err := m.close(m.seals(), 5*cent, 14*cent, 1); err != nil {
			t.Fatal(err)
		}
		m.sound(t)
		m.exec(t, tc.plant)
		m.wantDrift(t, tc.invariant, string(m.month))
	}
}
