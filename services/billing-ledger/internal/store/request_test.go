package store_test

import (
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/receipt"
	"svc.internal/services/billing-ledger/internal/usage"
)

// foundRequest finds a request as an operator does.
func (e *env) foundRequest(t testing.TB, request ids.RequestID) receipt.Found {
	t.Helper()
	f, err := receipt.Find(t.Context(), e.store, request)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAnOperatorFindsWhoseARequestWasAndWhatWasGivenBack(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 10*cent)
	r, open := e.reservation(t, c, 3), e.reservation(t, c, 1)
	e.admitOne(t, r, hold.Admitted)
	e.admitOne(t, open, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, r, 2))
	prefix := scan[string](t, e, `SELECT prefix FROM consumer_key WHERE id = $1`, [16]byte(c.key))

	switch f := e.foundRequest(t, open.Request); {
	case f.Account != c.account:
		t.Errorf("the account: got %s, want %s", f.Account, c.account)
	case f.Key != c.key:
		t.Errorf("the key: got %s, want %s", f.Key, c.key)
	case f.KeyPrefix != prefix:
		t.Errorf("what is shown of the key: got %q, want %q", f.KeyPrefix, prefix)
	case f.Receipt.State != hold.Open:
		t.Errorf("the state: got %s, want %s", f.Receipt.State, hold.Open)
	case f.Refund != nil:
		t.Errorf("the refund: got %+v, want none", f.Refund)
	}
	entry, err := e.store.Refund(t.Context(), entryID(t), r.Request, usage.Goodwill, "sorry")
	if err != nil {
		t.Fatal(err)
	}
	switch f := e.foundRequest(t, r.Request); {
	case f.Receipt.Usage == nil:
		t.Error("the usage: got nil, want that of the settled request")
	case f.Refund == nil:
		t.Error("the refund: got nil, want the entry")
	case f.Refund.Entry != entry:
		t.Errorf("the entry: got %s, want %s", f.Refund.Entry, entry)
	case f.Refund.Kind != "goodwill_refund":
		t.Errorf("the kind: got %q, want goodwill_refund", f.Refund.Kind)
	case f.Refund.Amount != 2*cent:
		t.Errorf("given back: got %s, want %s", f.Refund.Amount, 2*cent)
	case f.Refund.Memo != "sorry":
		t.Errorf("the note: got %q, want sorry", f.Refund.Memo)
	}
	if _, err := receipt.Find(t.Context(), e.store, ids.RequestID{1}); !fault.Is(err, fault.RequestNotFound) {
		t.Errorf("a request that never was: got the error %v, want %s", err, fault.RequestNotFound)
	}
}

// Of a request of a cleared day only the settled line is left, and it is found by that.
func TestAnOperatorFindsARequestOfAClearedDay(t *testing.T) {
	e, c, old, _, _ := longAgo(t, retention+1)
	if n := e.dropCleared(t, 1); n != 1 {
		t.Fatalf("dropped: got %d, want the first", n)
	}
	switch f := e.foundRequest(t, old[0].Request); {
	case f.Account != c.account:
		t.Errorf("the account: got %s, want %s", f.Account, c.account)
	case f.Receipt.State != hold.Settled:
		t.Errorf("the state: got %s, want %s", f.Receipt.State, hold.Settled)
	case f.Receipt.Report != nil:
		t.Errorf("the report: got %+v, want none", f.Receipt.Report)
	}
}
