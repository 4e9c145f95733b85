package billingledger_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/usagebundle"
	"svc.internal/pkg/usageseal"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/usage"
)

// holds counts the holds of a request that are written.
func (f *fleet) holds(t *testing.T, request string) (n int) {
	t.Helper()
	if err := f.db.QueryRow(t.Context(), `SELECT count(*) FROM hold WHERE request_id = $1`, request).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// busy admits requests of a caller that carries tickets until one is admitted from memory, and returns all that
// were admitted by then.
func (f *fleet) busy(t *testing.T, c consumer) (reqs []*billingv1.AdmitRequest, last *billingv1.AdmitResponse) {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; {
		req := order(t, c)
		req.CarriesTicket = true
		last = f.admit(t, req)
		reqs = append(reqs, req)
		if len(last.GetTicket()) > 0 {
			return reqs, last
		}
		if n := f.holds(t, req.GetRequestId()); n != 1 {
			t.Fatalf("holds of a request without a ticket: got %d, want 1", n)
		}
		// It gives its place back, because a slow machine tries more often than there are places.
		if _, err := f.admission.Conclude(t.Context(), &billingv1.ConcludeRequest{Reports: []*billingv1.RequestReport{{
			RequestId: req.GetRequestId(), Outcome: billingv1.Outcome_OUTCOME_FAILED,
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("no request of %d was admitted from memory", len(reqs))
	return nil, nil
}

// macOf is what admission gives for a request of an account.
func (f *fleet) macOf(t *testing.T, request, account string) []byte {
	t.Helper()
	var secret []byte
	if err := f.db.QueryRow(t.Context(), `SELECT secret FROM ledger_secret`).Scan(&secret); err != nil {
		t.Fatal(err)
	}
	r, err := ids.ParseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	a, err := ids.ParseAccount(account)
	if err != nil {
		t.Fatal(err)
	}
	mac := usage.NewTickets(usageseal.Derive(secret, "tickets").Secret).For(r, a)
	return mac[:]
}

// publishAs publishes usage of hub-1 as it is.
func (f *fleet) publishAs(t *testing.T, e *eventsv1.UsageEvent) {
	t.Helper()
	data, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	f.publishRaw(t, data)
}

func TestARequestThatIsAdmittedFromMemoryIsReportedRenewedAndSettledAtOnce(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "100")
	notices := f.notices(t)
	reqs, last := f.busy(t, c)
	id := reqs[len(reqs)-1].GetRequestId()
	if n := len(last.GetTicket()); n > usage.MaxTicket {
		t.Errorf("bytes of the ticket: got %d, want at most %d", n, usage.MaxTicket)
	}
	if got, want := last.GetLedgerMac(), f.macOf(t, id, c.account); string(got) != string(want) {
		t.Errorf("MAC: got %x, want %x", got, want)
	}
	f.renew(t, &billingv1.RunningRequest{RequestId: id, CommittedAttempt: 2, HubId: "hub-1", ProviderId: provider,
		RelayedTokens: 7, RelayedBytes: 70, Ticket: last.GetTicket()})
	if _, err := f.admission.Conclude(t.Context(), &billingv1.ConcludeRequest{Reports: []*billingv1.RequestReport{{
		RequestId: id, Outcome: billingv1.Outcome_OUTCOME_COMPLETED, CommittedAttempt: 2, HttpStatus: 200,
		Ticket: last.GetTicket(),
	}}}); err != nil {
		t.Fatal(err)
	}
	var renewals, reports int
	if err := f.db.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM renewal WHERE request_id = $1 AND relayed_tokens = 7),
		(SELECT count(*) FROM request_report WHERE request_id = $1)`, id).Scan(&renewals, &reports); err != nil {
		t.Fatal(err)
	}
	if renewals != 1 {
		t.Errorf("renewals kept: got %d, want 1", renewals)
	}
	if reports != 1 {
		t.Errorf("reports kept: got %d, want 1", reports)
	}
	e := served(id)
	e.LedgerMac, e.Ticket = last.GetLedgerMac(), last.GetTicket()
	f.publishAs(t, e)
	if got := wait(t, notices); got != id {
		t.Errorf("settled: got %s, want %s", got, id)
	}
	f.noQuarantine(t)
	f.sound(t)
}

func TestACallerThatCarriesNoTicketsGetsHoldsThatAreWritten(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "100")
	f.busy(t, c)
	for range 3 {
		req := order(t, c)
		if a := f.admit(t, req); len(a.GetTicket()) != 0 {
			t.Errorf("ticket: got %d bytes, want none", len(a.GetTicket()))
		}
		if n := f.holds(t, req.GetRequestId()); n != 1 {
			t.Errorf("holds when the caller is answered: got %d, want 1", n)
		}
	}
	f.sound(t)
}

// Usage is on its way before the hold is written, from a hub that does not know tickets. The request is admitted
// late here, so that the order is sure.
func TestUsageWithoutATicketIsSettledOnceItsHoldIsWritten(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "100")
	notices := f.notices(t)
	req := order(t, c)
	early, other := served(req.GetRequestId()), order(t, c)
	early.LedgerMac = f.macOf(t, req.GetRequestId(), c.account)
	f.publishAs(t, early)
	f.publishAs(t, early) // each message comes again by itself
	f.admit(t, other)
	f.publish(t, served(other.GetRequestId())) // it does not wait behind
	if got := wait(t, notices); got != other.GetRequestId() {
		t.Errorf("settled first: got %s, want %s", got, other.GetRequestId())
	}
	f.admit(t, req)
	if got := wait(t, notices); got != req.GetRequestId() {
		t.Errorf("settled: got %s, want %s", got, req.GetRequestId())
	}
	f.noQuarantine(t)
	f.sound(t)
}

func TestUsageOfARequestThatNeverWasIsQuarantinedWhenItsTimeIsOver(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "100")
	req := order(t, c)
	e := served(req.GetRequestId())
	e.LedgerMac = f.macOf(t, req.GetRequestId(), c.account)
	f.clock.by.Store(int64(usage.EarlyFor))
	f.publishAs(t, e)
	f.quarantined(t, "unknown_request", 1)
}

// An event that is put off takes no other of its bundle with it.
func TestEarlyUsageInABundleHoldsUpNoOther(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "100")
	notices := f.notices(t)
	one, two, other := order(t, c), order(t, c), order(t, c)
	f.admit(t, other)
	var events [][]byte
	for _, req := range []*billingv1.AdmitRequest{one, other, two} {
		e := served(req.GetRequestId())
		e.LedgerMac = f.macOf(t, req.GetRequestId(), c.account)
		data, err := proto.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, hubKey.Seal(data))
	}
	if _, err := f.seals.HandUsageKey(t.Context(), &billingv1.HandUsageKeyRequest{HubId: "hub-1", KeyId: hubKey.ID[:],
		Key: hubKey.Secret[:]}); err != nil {
		t.Fatal(err)
	}
	f.forge(t, bus.SubjectUsage("hub-1"), usagebundle.Join(events))
	if got := wait(t, notices); got != other.GetRequestId() {
		t.Errorf("settled first: got %s, want %s", got, other.GetRequestId())
	}
	f.admit(t, one)
	f.admit(t, two)
	missing := map[string]bool{one.GetRequestId(): true, two.GetRequestId(): true}
	for len(missing) > 0 { // the other is told again each time
		delete(missing, wait(t, notices))
	}
	f.noQuarantine(t)
	f.sound(t)
}

// A void has no ticket. The request is admitted late here, so that the order is sure.
func TestAVoidBeforeItsHoldIsWrittenIsKept(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "100")
	early, other := order(t, c), order(t, c)
	f.admit(t, other)
	for _, req := range []*billingv1.AdmitRequest{early, other} {
		void, err := proto.Marshal(&eventsv1.VoidEvent{RequestId: req.GetRequestId(), Attempt: 2, HubId: "hub-1",
			ProviderId: provider})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.bus.PublishStream(t.Context(), bus.SubjectVoid("hub-1"), req.GetRequestId(), void, nil); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(req *billingv1.AdmitRequest) func() bool {
		return func() bool {
			var n int
			if err := f.db.QueryRow(t.Context(), `SELECT count(*) FROM void_attempt WHERE request_id = $1`,
				req.GetRequestId()).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n == 1
		}
	}
	until(t, kept(other)) // then the early one has been looked at
	f.admit(t, early)
	until(t, kept(early))
	f.sound(t)
}

func TestARequestThatIsAdmittedFromMemoryHasAReceiptAtOnce(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "100")
	reqs, _ := f.busy(t, c)
	got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{
		RequestId: reqs[len(reqs)-1].GetRequestId(), AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	if status := got.GetReceipt().GetStatus(); status != "open" {
		t.Errorf("status: got %q, want open", status)
	}
}
