package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/seal"
	"svc.internal/services/billing-ledger/internal/usage"
)

// eventful is a ledger whose first day, two days ago, has a change of every kind that an
// owner's own requests can bring: each of five earned seven cents, and was held.
func eventful(t *testing.T) (*env, ids.ProviderID, seal.Day) {
	t.Helper()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	provider := e.owned(t, c)
	var claims []hold.Reservation
	for range 5 {
		claims = append(claims, e.reservation(t, c, 10))
	}
	e.admit(t, claims...)
	e.release(t, claims[3].Request, claims[4].Request)
	for i, reservation := range claims {
		outcome := usage.Settled
		if i > 2 {
			outcome = usage.Orphaned
		}
		e.settle(t, outcome, e.servedBy(t, reservation, provider))
	}
	if _, err := e.store.Refund(t.Context(), entryID(t), claims[0].Request, usage.ProviderFault, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.store.ReleaseHeld(t.Context(), []ids.RequestID{claims[1].Request}, "looked at"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.store.Reverse(t.Context(), entryID(t), ids.EntryID(claims[3].Request), "self-dealing"); err != nil {
		t.Fatal(err)
	}
	// Five cents are held still, and two are free.
	post(t, e, must(t)(ledger.EarningsBatch(newFact(t), provider, 2*cent, 0)))
	e.pushBack(t, 2)
	err := pgx.BeginFunc(t.Context(), e.owner, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `UPDATE held_earning SET held_at = held_at - interval '2 days',
			ended_at = ended_at - interval '2 days'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, provider, e.sealDue(t)[0]
}

// pages lists a sealed day in pages of a size.
func (e *env) pages(t *testing.T, day time.Time, size int) []earning.Change {
	t.Helper()
	var all []earning.Change
	var after earning.ChangeCursor
	for {
		page, root, err := e.store.SealedChanges(t.Context(), day, after, size)
		if err != nil {
			t.Fatal(err)
		}
		if len(root) != 32 {
			t.Fatalf("the seal: got %d bytes, want 32", len(root))
		}
		all = append(all, page...)
		if len(page) < size {
			return all
		}
		after = page[size-1].ChangeCursor
	}
}

func TestASealedDayListsEveryChangeOfEarnings(t *testing.T) {
	e, provider, sealed := eventful(t)
	count := map[string]int{}
	for _, c := range e.pages(t, sealed.Day, 100) {
		if c.Provider != provider {
			t.Errorf("provider of a change: got %v, want %v", c.Provider, provider)
		}
		if c.Request.IsZero() != (c.Kind == earning.ByEntry) {
			t.Errorf("%s: got the request %v", c.Kind, c.Request)
		}
		count[fmt.Sprintf("%s %s %s", c.Kind, c.Account, c.Amount)]++
	}
	want := map[string]int{
		"payg l:provider:accrued 0.07": 3, "orphan l:provider:accrued 0.07": 2,
		"request_refund l:provider:accrued -0.07": 1, "reversal l:provider:accrued -0.07": 1,
		"held l:provider:accrued 0.07": 5, "refunded l:provider:accrued 0.07": 1,
		"released l:provider:accrued 0.07": 1, "reversed l:provider:accrued 0.07": 1,
		"entry l:provider:accrued -0.02": 1, "entry l:provider:payable 0.02": 1,
	}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("changes: got %v, want %v", count, want)
	}
}

func TestPagesOfASealedDayAreTheWholeOfIt(t *testing.T) {
	e, _, sealed := eventful(t)
	whole := e.pages(t, sealed.Day, 100)
	for _, size := range []int{1, 2, 3, 7} {
		if got := e.pages(t, sealed.Day, size); !slices.Equal(got, whole) {
			t.Errorf("pages of %d: got %d changes, want the same %d", size, len(got), len(whole))
		}
	}
}

// Settlement adds up the changes and holds the sums against the balances.
func TestTheChangesOfASealedDaySumToWhatItsAccountsMoved(t *testing.T) {
	e, provider, sealed := eventful(t)
	sums := map[ledger.AccountKind]money.NanoUSD{}
	for _, c := range e.pages(t, sealed.Day, 100) {
		moves := []earning.ChangeKind{earning.ByCredit, earning.ByOrphan, earning.ByRefund, earning.ByReversal,
			earning.ByEntry}
		if slices.Contains(moves, c.Kind) {
			sums[c.Account] += c.Amount
		}
	}
	balances, err := e.store.SealedBalances(t.Context(), sealed.Day, earning.BalanceCursor{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range balances {
		if b.Provider != provider {
			t.Errorf("provider of a balance: got %v, want %v", b.Provider, provider)
		}
		if b.Moved != sums[b.Account] {
			t.Errorf("%s moved %s, and its changes sum to %s", b.Account, b.Moved, sums[b.Account])
		}
		delete(sums, b.Account)
	}
	for account, sum := range sums {
		t.Errorf("%s has no balance, and its changes sum to %s", account, sum)
	}
	last := balances[len(balances)-1].BalanceCursor
	if rest, err := e.store.SealedBalances(t.Context(), sealed.Day, last, 100); err != nil {
		t.Fatal(err)
	} else if len(rest) != 0 {
		t.Errorf("behind the last: got %+v, want nothing", rest)
	}
}

func TestADayThatIsNotSealedIsNotListed(t *testing.T) {
	e, _, sealed := eventful(t)
	for _, day := range []time.Time{sealed.Day.AddDate(0, 0, 2), sealed.Day.AddDate(0, 0, -1)} {
		if _, _, err := e.store.SealedChanges(t.Context(), day, earning.ChangeCursor{}, 1); !errors.Is(err,
			earning.ErrDayOpen) {
			t.Errorf("changes of %v: got the error %v, want %v", day, err, earning.ErrDayOpen)
		}
		if _, err := e.store.SealedBalances(t.Context(), day, earning.BalanceCursor{}, 1); !errors.Is(err,
			earning.ErrDayOpen) {
			t.Errorf("balances of %v: got the error %v, want %v", day, err, earning.ErrDayOpen)
		}
	}
	_, _, _, err := earning.ListSealed(t.Context(), e.store, time.Now().UTC().Format(time.DateOnly), "")
	if !fault.Is(err, fault.DayOpen) {
		t.Errorf("today's list: got the error %v, want the reason %s", err, fault.DayOpen)
	}
}
