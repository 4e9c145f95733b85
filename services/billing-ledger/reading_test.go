package billingledger_test

import (
	"testing"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

// What an operator reads of one settled request: itself, its entry, the balances, the rules and the streams.
func TestAnOperatorReadsTheLedgerOverTheWire(t *testing.T) {
	f := start(t, func(c *billingledger.Config) { c.ReconcileInterval = 100 * time.Millisecond })
	c, notices := f.consumer(t, "1"), f.notices(t)
	req := order(t, c)
	f.admit(t, req)
	if _, err := f.admission.Conclude(t.Context(), &billingv1.ConcludeRequest{Reports: []*billingv1.RequestReport{{
		RequestId: req.GetRequestId(), Outcome: billingv1.Outcome_OUTCOME_COMPLETED, CommittedAttempt: 1,
		Attempts: []*billingv1.AttemptRecord{{Attempt: 1, Result: "served",
			PassedOver: []*billingv1.PassedOver{{Reason: "breaker_open", Count: 2}}}},
	}}}); err != nil {
		t.Fatal(err)
	}
	f.publish(t, served(req.GetRequestId()))
	wait(t, notices)

	found, err := f.overviews.GetRequest(t.Context(), &billingv1.GetRequestRequest{RequestId: req.GetRequestId()})
	switch {
	case err != nil:
		t.Fatal(err)
	case found.GetAccountId() != c.account:
		t.Errorf("the account: got %q, want %q", found.GetAccountId(), c.account)
	case found.GetKeyId() != c.key:
		t.Errorf("the key: got %q, want %q", found.GetKeyId(), c.key)
	case found.GetReceipt().GetStatus() != "settled":
		t.Errorf("the status: got %q, want settled", found.GetReceipt().GetStatus())
	}
	f.routingIsForOperators(t, c.account, req.GetRequestId())
	for _, id := range []string{"", "x", "00000000-0000-7000-8000-000000000001"} {
		_, err := f.overviews.GetRequest(t.Context(), &billingv1.GetRequestRequest{RequestId: id})
		if !fault.Is(err, fault.RequestNotFound) {
			t.Errorf("%q: got the error %v, want %s", id, err, fault.RequestNotFound)
		}
	}
	page, err := f.ledgerAdmin.ListLedgerEntries(t.Context(),
		&billingv1.ListLedgerEntriesRequest{RequestId: req.GetRequestId()})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.GetList()) != 1 {
		t.Fatalf("the entries: got %v, want the settled request", page.GetList())
	}
	entry := page.GetList()[0]
	if entry.GetKind() != "usage" {
		t.Errorf("the kind: got %q, want usage", entry.GetKind())
	}
	if got := entry.GetLegs()[0]; got.GetAmount() != "-0.0014" {
		t.Errorf("the consumer's leg: got %v, want -0.0014", got)
	}
	trial, err := f.ledgerAdmin.ListLedgerAccounts(t.Context(), &billingv1.ListLedgerAccountsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !trial.GetBalanced() {
		t.Errorf("the totals: got %v, want zero", trial.GetTotals())
	}
	until(t, func() bool {
		rules, err := f.ledgerAdmin.ListLedgerInvariants(t.Context(), &billingv1.ListLedgerInvariantsRequest{})
		return err == nil && len(rules.GetList()) == 3 && rules.GetList()[0].GetHolds()
	})
	f.wantStreams(t)
}

// wantStreams wants the three streams of the ledger, and its own consumer of usage without a lag.
func (f *fleet) wantStreams(t *testing.T) {
	t.Helper()
	resp, err := f.streams.ListStreams(t.Context(), &billingv1.ListStreamsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetList()) != 3 {
		t.Fatalf("the streams: got %v, want three", resp.GetList())
	}
	usage := resp.GetList()[2]
	if usage.GetMessages() != 1 {
		t.Errorf("messages of %s: got %d, want 1", usage.GetStream(), usage.GetMessages())
	}
	for _, c := range usage.GetConsumers() {
		want := "does not exist" // nobody but the ledger runs here
		if c.GetConsumer() == "billing" {
			want = ""
		}
		if c.GetError() != want {
			t.Errorf("%s: got the error %q, want %q", c.GetConsumer(), c.GetError(), want)
		}
		if c.GetPending() != 0 {
			t.Errorf("%s: got %d messages that were not delivered, want 0", c.GetConsumer(), c.GetPending())
		}
	}
}

// routingIsForOperators tests that an operator sees what the router passed over for a request, and that its
// account does not, because that says how other providers stand.
func (f *fleet) routingIsForOperators(t *testing.T, account, request string) {
	t.Helper()
	found, err := f.overviews.GetRequest(t.Context(), &billingv1.GetRequestRequest{RequestId: request})
	if err != nil {
		t.Fatal(err)
	}
	passed := found.GetReceipt().GetAttempts()[0].GetPassedOver()
	if len(passed) != 1 {
		t.Fatalf("passed over, for an operator: got %v, want one", passed)
	}
	if got := passed[0].GetReason(); got != "breaker_open" {
		t.Errorf("passed over, for an operator: got the reason %q, want breaker_open", got)
	}
	if got := passed[0].GetCount(); got != 2 {
		t.Errorf("passed over, for an operator: got %d, want 2", got)
	}
	own, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: request, AccountId: account})
	if err != nil {
		t.Fatal(err)
	}
	if passed := own.GetReceipt().GetAttempts()[0].GetPassedOver(); len(passed) != 0 {
		t.Errorf("passed over, for the account: got %v, want nothing", passed)
	}
}
