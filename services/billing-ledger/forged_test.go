package billingledger_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/usagebundle"
	"svc.internal/pkg/usageseal"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// quarantined waits until so many events lie in quarantine, for this reason.
func (f *fleet) quarantined(t *testing.T, reason string, want int) {
	t.Helper()
	until(t, func() bool {
		var n int
		if err := f.db.QueryRow(t.Context(), `SELECT count(*) FROM quarantine WHERE reason = $1`,
			reason).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n >= want
	})
}

func sealed(t *testing.T, key usageseal.Key, e *eventsv1.UsageEvent) []byte {
	t.Helper()
	data, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return key.Seal(data)
}

// TestForgedUsageNeverSettlesNorStopsTheTrueUsage publishes, before the true
// usage of a request, what somebody on the bus could make up.
func TestForgedUsageNeverSettlesNorStopsTheTrueUsage(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	req := order(t, c)
	f.admit(t, req)
	told := f.notices(t)
	mac := f.ticket(t, req.GetRequestId())
	cheap := func(change func(*eventsv1.UsageEvent)) *eventsv1.UsageEvent {
		e := served(req.GetRequestId())
		e.BillablePromptTokens, e.BillableCompletionTokens, e.LedgerMac = 0, 1, mac
		change(e)
		return e
	}
	same := func(*eventsv1.UsageEvent) {}
	byGateway := func(e *eventsv1.UsageEvent) {
		e.EvidenceSource = eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY
	}
	other := usageseal.Key{ID: usageseal.KeyID{9}, Secret: [32]byte{9}}
	for hub, key := range map[string]usageseal.Key{"hub-1": hubKey, "hub-2": other} {
		if _, err := f.seals.HandUsageKey(t.Context(), &billingv1.HandUsageKeyRequest{HubId: hub, KeyId: key.ID[:],
			Key: key.Secret[:]}); err != nil {
			t.Fatal(err)
		}
	}
	guess := hubKey
	guess.Secret[0]++
	plain, err := proto.Marshal(cheap(same))
	if err != nil {
		t.Fatal(err)
	}
	hub1, hub2 := bus.SubjectUsage("hub-1"), bus.SubjectUsage("hub-2")
	for _, forgery := range []struct {
		subject string
		data    []byte
	}{
		{hub1, plain},
		{hub1, sealed(t, guess, cheap(same))},
		{hub2, sealed(t, other, cheap(same))}, // another hub for this one
		{hub2, sealed(t, hubKey, cheap(func(e *eventsv1.UsageEvent) { e.HubId = "hub-2" }))}, // a key of another hub: unknown
		{hub1, sealed(t, hubKey, cheap(byGateway))},
		{hub1, sealed(t, hubKey, cheap(func(e *eventsv1.UsageEvent) { e.Settled = true }))},
		{bus.SubjectUsageLedger, sealed(t, hubKey, cheap(byGateway))},
		{bus.SubjectUsageLedger, plain},
		{"usage.v1.\xff", sealed(t, other, cheap(same))}, // what no table takes for a hub
		// A hub that was not given the request.
		{hub2, sealed(t, other, cheap(func(e *eventsv1.UsageEvent) { e.HubId, e.LedgerMac = "hub-2", nil }))},
		{hub2, sealed(t, other, cheap(func(e *eventsv1.UsageEvent) { e.HubId, e.LedgerMac = "hub-2", make([]byte, 16) }))},
		// This hub, before its gateway has handed the ticket on.
		{hub1, sealed(t, hubKey, cheap(func(e *eventsv1.UsageEvent) { e.LedgerMac = nil }))},
	} {
		f.forge(t, forgery.subject, forgery.data)
	}
	f.quarantined(t, "forged", 10)
	if got := f.balance(t, c); got != "1.00 held 0.002" {
		t.Errorf("after the forgeries: got %s, want nothing charged", got)
	}
	if len(told) != 0 {
		t.Errorf("got hub-1 told that %s is settled, want it told nothing: it would forget the true usage", <-told)
	}
	f.publish(t, served(req.GetRequestId()))
	if got := wait(t, told); got != req.GetRequestId() {
		t.Errorf("got %s settled, want %s", got, req.GetRequestId())
	}
	if got := f.balance(t, c); got != "0.9986 held 0.00" {
		t.Errorf("after the true usage: got %s, want 0.0014 charged", got)
	}
	f.forge(t, hub1, plain)
	f.forge(t, hub1, sealed(t, hubKey, cheap(func(e *eventsv1.UsageEvent) { e.LedgerMac = make([]byte, 16) })))
	f.quarantined(t, "forged", 11) // plain lies there already
}

// TestUsageWaitsForTheKeyOfItsHub lets usage come before the key, as after a
// database that has lost it.
func TestUsageWaitsForTheKeyOfItsHub(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	early, other := order(t, c), order(t, c)
	f.admit(t, early)
	f.admit(t, other)
	told := f.notices(t)
	late := usageseal.Key{ID: usageseal.KeyID{7}, Secret: [32]byte{7}}
	e := served(early.GetRequestId())
	e.LedgerMac = f.ticket(t, early.GetRequestId())
	f.forge(t, bus.SubjectUsage("hub-1"), sealed(t, late, e))
	f.publish(t, served(other.GetRequestId())) // it does not wait behind
	if got := wait(t, told); got != other.GetRequestId() {
		t.Errorf("got %s settled first, want %s", got, other.GetRequestId())
	}
	if _, err := f.seals.HandUsageKey(t.Context(), &billingv1.HandUsageKeyRequest{HubId: "hub-1", KeyId: late.ID[:],
		Key: late.Secret[:]}); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, told); got != early.GetRequestId() {
		t.Errorf("got %s settled, want %s", got, early.GetRequestId())
	}
	if got := f.balance(t, c); got != "0.9972 held 0.00" {
		t.Errorf("got %s, want both charged", got)
	}
}

// TestUsageUnderMadeUpKeysHoldsNothingUp lets a hub publish more usage under keys
// that nobody has than the stream hands out at a time.
func TestUsageUnderMadeUpKeysHoldsNothingUp(t *testing.T) {
	const many = 1_100
	f := start(t)
	c := f.consumer(t, "1")
	genuine, abandoned := order(t, c), order(t, c)
	f.admit(t, genuine)
	f.admit(t, abandoned)
	told := f.notices(t)
	f.clock.by.Store(int64(usageseal.KeyWait)) // hubs have had the time
	for n := range many {
		made := usageseal.Key{ID: usageseal.KeyID{8, byte(n), byte(n >> 8)}}
		e := served(abandoned.GetRequestId())
		e.HubId, e.RecountedCompletionTokens = "hub-2", int64(n)
		f.forge(t, bus.SubjectUsage("hub-2"), sealed(t, made, e))
	}
	late := usageseal.Key{ID: usageseal.KeyID{7}, Secret: [32]byte{7}}
	e := served(genuine.GetRequestId())
	e.LedgerMac = f.ticket(t, genuine.GetRequestId())
	f.forge(t, bus.SubjectUsage("hub-1"), sealed(t, late, e)) // its key was lost
	f.quarantined(t, "unknown_key", many+1)
	if len(told) != 0 {
		t.Errorf("got hub-1 told that %s is settled, want it told nothing: it is to publish again", <-told)
	}
	if _, err := f.seals.HandUsageKey(t.Context(), &billingv1.HandUsageKeyRequest{HubId: "hub-1", KeyId: late.ID[:],
		Key: late.Secret[:]}); err != nil {
		t.Fatal(err)
	}
	f.forge(t, bus.SubjectUsage("hub-1"), sealed(t, late, e))
	if got := wait(t, told); got != genuine.GetRequestId() {
		t.Errorf("got %s settled, want %s", got, genuine.GetRequestId())
	}
	f.pass(t, lease)
	until(t, func() bool { return f.status(t, c, abandoned.GetRequestId()) == "expired" })
	if got := f.balance(t, c); got != "0.9986 held 0.00" {
		t.Errorf("got %s, want the usage charged whose key came late, and nothing held", got)
	}
	f.sound(t)
}

func TestAHubIsToldThatItHandsOverTooManyKeys(t *testing.T) {
	f := start(t)
	hand := func(hub string, n int) error {
		_, err := f.seals.HandUsageKey(t.Context(), &billingv1.HandUsageKeyRequest{
			HubId: hub, KeyId: []byte{1, 2, 3, 4, 5, 6, byte(n), byte(n >> 8)}, Key: make([]byte, 32)})
		return err
	}
	for n := range 300 {
		if err := hand("hub-1", n); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := fault.As(hand("hub-1", 300)); !ok || got.Kind != fault.Exhausted || got.Reason != fault.TooManyKeys ||
		got.RetryAfter <= 0 {
		t.Errorf("got %v, want too_many_keys, and when to try again", got)
	}
	if err := hand("hub-1", 7); err != nil {
		t.Errorf("a key that stands: got %v, want it taken", err)
	}
	if err := hand("hub-2", 300); err != nil {
		t.Errorf("a key of another hub: got %v, want it taken", err)
	}
}

// TestEachEventOfABundleIsJudgedByItself publishes, twice, genuine usage beside a forgery
// and beside what is no event.
func TestEachEventOfABundleIsJudgedByItself(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	first, second := order(t, c), order(t, c)
	f.admit(t, first)
	f.admit(t, second)
	told := f.notices(t)
	if _, err := f.seals.HandUsageKey(t.Context(), &billingv1.HandUsageKeyRequest{HubId: "hub-1", KeyId: hubKey.ID[:],
		Key: hubKey.Secret[:]}); err != nil {
		t.Fatal(err)
	}
	genuine := func(request string) []byte {
		e := served(request)
		e.LedgerMac = f.ticket(t, request)
		return sealed(t, hubKey, e)
	}
	forged, err := proto.Marshal(served(second.GetRequestId()))
	if err != nil {
		t.Fatal(err)
	}
	message := usagebundle.Join([][]byte{genuine(first.GetRequestId()), forged, hubKey.Seal([]byte("junk")),
		genuine(second.GetRequestId())})
	for range 2 {
		f.forge(t, bus.SubjectUsage("hub-1"), message)
		for _, want := range []string{first.GetRequestId(), second.GetRequestId()} {
			if got := wait(t, told); got != want {
				t.Errorf("settled: got %s, want %s", got, want)
			}
		}
	}
	if got := f.balance(t, c); got != "0.9972 held 0.00" {
		t.Errorf("balance: got %s, want each charged once", got)
	}
	for _, reason := range []string{"forged", "undecodable"} {
		var n int
		row := f.db.QueryRow(t.Context(), `SELECT count(*) FROM quarantine WHERE reason = $1`, reason)
		if err := row.Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 1 {
			t.Errorf("events set aside as %s: got %d, want 1", reason, n)
		}
	}
}
