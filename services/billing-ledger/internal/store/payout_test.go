package store_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// must returns an entry that its constructor made.
func must(t testing.TB) func(ledger.Entry, error) ledger.Entry {
	return func(e ledger.Entry, err error) ledger.Entry {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

func TestAPayoutEndsOnceAndWithWhatWasRequested(t *testing.T) {
	e := setup(t, unlimited)
	c, provider, other := e.consumer(t, 0), newProvider(t), newProvider(t)
	e.fund(t, provider, c)
	e.fund(t, other, c)
	const ten = 10 * money.USD
	sum := ledger.Sum{Token: ledger.USDCBase, Units: 9_000_000}
	refused := func(entry ledger.Entry, want error) {
		t.Helper()
		if _, err := e.store.Post(t.Context(), entry); !errors.Is(err, want) {
			t.Errorf("%s of %s: got the error %v, want %v", entry.Kind, entry.BusinessID, err, want)
		}
	}
	asked := newFact(t)
	refused(must(t)(ledger.PayoutFail(sameFact(t, asked), provider, ten)), ledger.ErrNoPayout)
	post(t, e, must(t)(ledger.PayoutRequest(asked, provider, ten)))
	refused(must(t)(ledger.PayoutFail(sameFact(t, asked), other, ten)), ledger.ErrNoPayout)
	refused(must(t)(ledger.PayoutFail(sameFact(t, asked), provider, ten+1000)), ledger.ErrNoPayout)
	post(t, e, must(t)(ledger.PayoutConfirm(sameFact(t, asked), provider, ten, money.USD, sum)))
	refused(must(t)(ledger.PayoutFail(sameFact(t, asked), provider, ten)), ledger.ErrEnded)

	undone := newFact(t)
	request := must(t)(ledger.PayoutRequest(undone, provider, ten))
	post(t, e, request)
	if _, err := e.store.Reverse(t.Context(), entryID(t), request.ID, "a mistake"); err != nil {
		t.Fatal(err)
	}
	refused(must(t)(ledger.PayoutConfirm(sameFact(t, undone), provider, ten, money.USD, sum)), ledger.ErrNoPayout)
}

func TestTwoEndsOfOnePayoutAtOnceLeaveOne(t *testing.T) {
	e := setup(t, unlimited)
	provider := newProvider(t)
	e.fund(t, provider, e.consumer(t, 0))
	const ten = 10 * money.USD
	for range 10 {
		asked := newFact(t)
		post(t, e, must(t)(ledger.PayoutRequest(asked, provider, ten)))
		ends := []ledger.Entry{
			must(t)(ledger.PayoutFail(sameFact(t, asked), provider, ten)),
			must(t)(ledger.PayoutConfirm(sameFact(t, asked), provider, ten, money.USD,
				ledger.Sum{Token: ledger.USDCBase, Units: 9_000_000})),
		}
		var ended atomic.Int32
		var both sync.WaitGroup
		for _, end := range ends {
			both.Go(func() {
				switch _, err := e.store.Post(t.Context(), end); {
				case err == nil:
					ended.Add(1)
				case !errors.Is(err, ledger.ErrEnded):
					t.Error(err)
				}
			})
		}
		both.Wait()
		if got := ended.Load(); got != 1 {
			t.Fatalf("ends: got %d, want 1", got)
		}
	}
}

func TestAProviderIsNeverShortHoweverManyAskAtOnce(t *testing.T) {
	e := setup(t, unlimited)
	provider := newProvider(t)
	e.fund(t, provider, e.consumer(t, 0)) // $100 payable
	var granted atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		entry := must(t)(ledger.PayoutRequest(newFact(t), provider, 30*money.USD))
		callers.Go(func() {
			switch _, err := e.store.Post(t.Context(), entry); {
			case err == nil:
				granted.Add(1)
			case !errors.Is(err, ledger.ErrUnearned):
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if got := granted.Load(); got != 3 {
		t.Errorf("payouts of $30 from $100: got %d, want 3", got)
	}
}

func TestNobodyPaysMoreThanIsOwed(t *testing.T) {
	e := setup(t, unlimited)
	c, provider := e.consumer(t, 500*money.USD), newProvider(t)
	e.fund(t, provider, c) // both owe $100
	post(t, e, must(t)(ledger.CardDebtPayment(newFact(t), c.account, 60*money.USD)))
	post(t, e, must(t)(ledger.EarningsBatch(newFact(t), provider, 70*money.USD, 60*money.USD)))
	for _, entry := range []ledger.Entry{
		must(t)(ledger.CardDebtPayment(newFact(t), c.account, 41*money.USD)),
		must(t)(ledger.EarningsBatch(newFact(t), provider, 30*money.USD, 41*money.USD)),
	} {
		_, err := e.store.Post(t.Context(), entry)
		// A batch of $30 pays $30 of the $40 that are left.
		if entry.Kind == ledger.EarningsBatched {
			if err != nil {
				t.Errorf("%s: got the error %v, want none", entry.Kind, err)
			}
			continue
		}
		if !errors.Is(err, ledger.ErrOverpaid) {
			t.Errorf("%s: got the error %v, want %v", entry.Kind, err, ledger.ErrOverpaid)
		}
	}
}

func TestACoinMovesWithItsOwnQuoteAndUSDCWithNone(t *testing.T) {
	e := setup(t, unlimited)
	c, provider := e.consumer(t, 100*money.USD), newProvider(t)
	e.fund(t, provider, c)
	tried := 0
	for _, entry := range everyEntry(t, e, c, provider) {
		other := ledger.Quote{Token: ledger.ETHBase, Rate: 5, Source: "x", At: time.Unix(1_770_000_000, 0)}
		moves := slices.ContainsFunc(entry.Postings, func(p ledger.Posting) bool { return p.Account.Kind == ledger.Crypto })
		if !moves {
			continue
		}
		broken := entry
		broken.ID, broken.BusinessID = entryID(t), entry.BusinessID+"x"
		if broken.Quote == nil {
			broken.Quote = &other
		} else {
			broken.Quote = nil
		}
		tried++
		if err := e.insertRaw(t, broken); !pg.IsCheck(err, "entry_quoted") {
			t.Errorf("%s: got the error %v, want one of entry_quoted", entry.Kind, err)
		}
	}
	if tried < 8 {
		t.Errorf("entries with tokens: got %d, want at least 8", tried)
	}
}

// A month may close with more providers than a transaction may have locks.
func TestManyProvidersTakeBoundedLocks(t *testing.T) {
	e := setup(t, unlimited)
	tx, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT lock_earnings(array_agg(gen_random_uuid()))
		FROM generate_series(1, 100000)`); err != nil {
		t.Fatal(err)
	}
	var locks int
	if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks
		WHERE locktype = 'advisory' AND pid = pg_backend_pid()`).Scan(&locks); err != nil {
		t.Fatal(err)
	}
	if locks != 1024 {
		t.Errorf("locks for 100,000 providers: got %d, want 1,024", locks)
	}
}

func TestVerifyNamesWhatProvidersLackAndPayoutsThatEndTwice(t *testing.T) {
	for _, tc := range []struct{ invariant, names, plant string }{
		{"no provider has less than nothing", "on l:provider:payable", `UPDATE posting SET amount = -amount
			WHERE account_kind = 'l:provider:payable' AND entry_kind = 'goodwill'`},
		{"nobody has paid more than was owed", "too much on a:consumer_receivable", `UPDATE posting SET amount = -amount
			WHERE account_kind = 'a:consumer_receivable' AND entry_kind = 'goodwill'`},
		{"a payout ends once, and as it was requested", "requested 10000000000", `UPDATE posting SET amount = amount - 1
			WHERE account_kind = 'l:provider:payout_in_flight' AND entry_kind = 'payout_failed'`},
		{"a payout ends once, and as it was requested", "requested ,",
			`DELETE FROM posting WHERE entry_kind = 'payout_requested'`},
		{"a payout ends once, and as it was requested", "in 2 entries",
			`UPDATE entry SET business_id = (SELECT business_id FROM entry WHERE kind = 'payout_failed')
				WHERE kind = 'payout_confirmed'`},
		{"a slash ends once", "has 2 ends",
			`UPDATE entry SET business_id = (SELECT business_id FROM entry WHERE kind = 'slash_appeal_won')
				WHERE kind = 'slash_forfeit'`},
	} {
		t.Run(tc.invariant+"/"+tc.names, func(t *testing.T) {
			t.Parallel()
			e := setup(t, unlimited)
			c, provider := e.consumer(t, 100*money.USD), newProvider(t)
			e.fund(t, provider, c)
			post(t, e, everyEntry(t, e, c, provider)...)
			e.exec(t, tc.plant)
			report, err := audit.Run(t.Context(), e.store)
			if err != nil {
				t.Fatal(err)
			}
			if !named(report, tc.invariant, tc.names) {
				t.Errorf("drift is not named: %+v", report.Invariants)
			}
		})
	}
}
