package store_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestGrantIsMadeOnceUnderParallelRepeats(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	entries := make([]ids.EntryID, 20)
	var callers sync.WaitGroup
	for i := range entries {
		callers.Go(func() {
			id, a, err := e.accounts.Grant(t.Context(), c.account, 5*money.USD, "order-1", "welcome")
			if err != nil {
				t.Errorf("got the error %v, want none", err)
			} else if a.Balance != 5*money.USD {
				t.Errorf("balance: got %v, want %v", a.Balance, 5*money.USD)
			}
			entries[i] = id
		})
	}
	callers.Wait()
	for _, id := range entries {
		if id != entries[0] {
			t.Fatalf("id: got %v, want %v", id, entries[0])
		}
		if id.IsZero() {
			t.Fatal("id.IsZero(): got true, want false")
		}
	}
	e.wantWallet(t, c, 5*money.USD, 0)
	e.sound(t)
}

func TestGrantKeyStandsForOneAmountAndAccount(t *testing.T) {
	e := setup(t, unlimited)
	c, other := e.consumer(t, 0), e.consumer(t, 0)
	if _, _, err := e.accounts.Grant(t.Context(), c.account, money.USD, "order-1", "memo"); err != nil {
		t.Fatal(err)
	}
	for _, again := range []struct {
		account ids.AccountID
		amount  money.NanoUSD
	}{{c.account, 2 * money.USD}, {other.account, money.USD}} {
		_, _, err := e.accounts.Grant(t.Context(), again.account, again.amount, "order-1", "memo")
		if !fault.Is(err, fault.IdempotencyKeyReused) {
			t.Errorf("reused for %+v: got the error %v, want the reason %v", again, err, fault.IdempotencyKeyReused)
		}
	}
	e.wantWallet(t, other, 0, 0)
	_, _, err := e.accounts.Grant(t.Context(), ids.AccountID(request(t)), money.USD, "order-2", "memo")
	if !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("unknown account: got the error %v, want the reason %v", err, fault.AccountNotFound)
	}
	e.sound(t)
}

func TestGrantsAreBounded(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	for _, amount := range []money.NanoUSD{0, -1, account.MaxGrant + 1} {
		_, _, err := e.accounts.Grant(t.Context(), c.account, amount, "order-1", "memo")
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("grant of %s: got the error %v, want the reason %v", amount, err, fault.InvalidValue)
		}
	}
	e.exec(t, `UPDATE wallet SET posted = 1000000000000000000`)
	if _, _, err := e.accounts.Grant(t.Context(), c.account, 1, "order-1", "memo"); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("grant above the ceiling: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}

func TestCreateAccountIsIdempotentByItsKey(t *testing.T) {
	e := setup(t, unlimited)
	first, err := e.accounts.Create(t.Context(), "acme", "signup-1")
	if err != nil {
		t.Fatal(err)
	}
	again, err := e.accounts.Create(t.Context(), "acme", "signup-1")
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if again.ID != first.ID {
		t.Errorf("repeat made: got %v, want %v", again.ID, first.ID)
	}
	if _, err := e.accounts.Create(t.Context(), "other", "signup-1"); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("the key of another name: got the error %v, want the reason %v", err, fault.IdempotencyKeyReused)
	}
	for range 2 {
		if a, err := e.accounts.Create(t.Context(), "acme", ""); err != nil {
			t.Errorf("without a key: got the error %v, want none", err)
		} else if a.ID == first.ID {
			t.Errorf("without a key: a.ID: got %v, want any but %v", a.ID, first.ID)
		}
	}
	for _, name := range []string{"", "a\nb", "ab\x00", string(make([]rune, 65))} {
		if _, err := e.accounts.Create(t.Context(), name, ""); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("name %q: got the error %v, want the reason %v", name, err, fault.InvalidValue)
		}
	}
}

func TestKeysAreRecognisedUntilTheyEnd(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	k, err := e.keys.Authenticate(t.Context(), c.digest)
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case k.ID != c.key:
		t.Fatalf("authenticated: k.ID: got %v, want %v", k.ID, c.key)
	case k.Account != c.account:
		t.Fatalf("authenticated: k.Account: got %v, want %v", k.Account, c.account)
	}
	other := c.digest
	other[0]++
	if _, err := e.keys.Authenticate(t.Context(), other); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("unknown key: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	e.exec(t, `UPDATE consumer_key SET expires_at = now()`)
	if _, err := e.keys.Authenticate(t.Context(), c.digest); !fault.Is(err, fault.KeyExpired) {
		t.Errorf("expired key: got the error %v, want the reason %v", err, fault.KeyExpired)
	}
	for range 2 {
		if err := e.keys.Revoke(t.Context(), c.key); err != nil {
			t.Errorf("revoke: %v", err)
		}
	}
	if _, err := e.keys.Authenticate(t.Context(), c.digest); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("revoked key: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
	if err := e.keys.Revoke(t.Context(), ids.KeyID(request(t))); !fault.Is(err, fault.KeyNotFound) {
		t.Errorf("revoke of an unknown key: got the error %v, want the reason %v", err, fault.KeyNotFound)
	}
}

func TestKeysOfAnAccountAreBoundedUnderParallelCallers(t *testing.T) {
	e := setup(t, unlimited)
	e.keys.MaxKeys = 5
	c := e.consumer(t, 0) // its first
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			_, _, err := e.keys.Issue(t.Context(), key.IssueRequest{Account: c.account})
			if err != nil && !fault.Is(err, fault.TooManyKeys) {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if n := scan[int64](t, e, `SELECT count(*) FROM consumer_key`); n != 5 {
		t.Errorf("got %d keys, want 5", n)
	}
	if err := e.keys.Revoke(t.Context(), c.key); err != nil {
		t.Fatal(err)
	}
	e.issue(t, c.account, key.IssueRequest{}) // a revoked key leaves its place
	_, _, err := e.keys.Issue(t.Context(), key.IssueRequest{Account: ids.AccountID(request(t))})
	if !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("key for an unknown account: got the error %v, want the reason %v", err, fault.AccountNotFound)
	}
	_, _, err = e.keys.Issue(t.Context(), key.IssueRequest{Account: c.account, ExpiresAt: time.Now().Add(-time.Second)})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("key that has expired: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}

func TestAccrualsAreSummedInPagesWithoutGaps(t *testing.T) {
	e := setup(t, unlimited)
	c, now := e.consumer(t, 10*money.USD), time.Now()
	var last usage.Delivery
	for day := range 3 {
		for range 4 {
			reservation := e.reservation(t, c, 2)
			reservation.Request = requestAt(t, now.Add(-time.Duration(day)*24*time.Hour))
			e.admitOne(t, reservation, hold.Admitted)
			d := e.served(t, reservation, 2)
			if last.Event.Attempt > 0 && day == 0 {
				d.Event.Provider = last.Event.Provider
			}
			e.settle(t, usage.Settled, d)
			last = d
		}
	}
	var all []earning.Accrual
	after := earning.AccrualCursor{Day: now.UTC().Add(-48 * time.Hour).Truncate(24 * time.Hour)}
	for {
		page, err := e.store.Accruals(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < 2 {
			break
		}
		after = page[1].AccrualCursor
	}
	var payout money.NanoUSD
	var requests int64
	for _, a := range all {
		payout += a.Payout
		requests += a.Requests
	}
	switch {
	case len(all) != 9:
		t.Errorf("len(all): got %d, want 9", len(all))
	case requests != 12:
		t.Errorf("requests: got %d, want 12", requests)
	case payout != 12*2*cent*7/10:
		t.Errorf("payout: got %v, want %v", payout, 12*2*cent*7/10)
	}
}

func TestSettledRequestsAreListedInTheOrderOfSettling(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 10*money.USD)
	var want []ids.RequestID
	for i := range 5 {
		reservation := e.reservation(t, c, 2)
		e.admitOne(t, reservation, hold.Admitted)
		e.settle(t, usage.Settled, e.served(t, reservation, 2))
		e.exec(t, `UPDATE usage_settlement SET settled_at = now() - make_interval(mins => $2) WHERE request_id = $1`,
			[16]byte(reservation.Request), 50-10*i)
		want = append(want, reservation.Request)
	}
	after := earning.SettledCursor{At: time.Now().Add(-time.Hour)}
	var got []ids.RequestID
	for {
		page, err := e.store.SettledAfter(t.Context(), after, 5*time.Minute, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			got = append(got, r.Request)
			switch {
			case r.Payout != 2*cent*7/10:
				t.Errorf("r.Payout: got %v, want %v", r.Payout, 2*cent*7/10)
			case r.EvidenceSource != usage.Hub:
				t.Errorf("r.EvidenceSource: got %q, want %q", r.EvidenceSource, usage.Hub)
			case r.Billable.Completion != 2:
				t.Errorf("r.Billable.Completion: got %d, want 2", r.Billable.Completion)
			}
		}
		after = page[len(page)-1].SettledCursor
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if page, err := e.store.SettledAfter(t.Context(), earning.SettledCursor{At: time.Now().Add(-time.Hour)},
		25*time.Minute, 10); err != nil || len(page) != 3 {
		t.Errorf("settled for 25 minutes: got %d and %v, want 3", len(page), err)
	}
}

func TestARequestThatIsSettledWeeksAfterItWasMadeIsListed(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 10*money.USD)
	reservation := e.reservation(t, c, 2)
	reservation.Request = requestAt(t, time.Now().AddDate(0, 0, -34))
	e.admitOne(t, reservation, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, reservation, 2))
	page, err := e.store.SettledAfter(t.Context(), earning.SettledCursor{At: time.Now().Add(-time.Hour)}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(page) != 1 {
		t.Errorf("a request of 34 days ago: got %d requests, want 1", len(page))
	}
}
