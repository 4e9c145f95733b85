package settlement

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/usagebundle"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// TestForgedUsageBecomesNoLine publishes, before the true usage, what somebody on
// the bus could make up, of a payout that is a hundred times too high.
func TestForgedUsageBecomesNoLine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	event := b.usage(t)
	high := func(change func(*eventsv1.UsageEvent)) []byte {
		e := b.usage(t)
		e.RequestId, e.BillableCompletionTokens = event.GetRequestId(), 300
		change(e)
		return encode(t, e)
	}
	same := func(*eventsv1.UsageEvent) {}
	guess := hubKey
	guess.Secret[0]++
	other := usageseal.Key{ID: usageseal.KeyID{9}, Secret: [32]byte{9}}
	if err := b.service.ring.Take(t.Context(), "hub-2", other); err != nil {
		t.Fatal(err)
	}
	if err := b.service.ring.Take(t.Context(), "hub", hubKey); err != nil {
		t.Fatal(err)
	}
	hub, hub2 := bus.SubjectUsage("hub"), bus.SubjectUsage("hub-2")
	b.forge(t, hub, "1", high(same))
	b.forge(t, hub, "2", guess.Seal(high(same)))
	b.forge(t, hub2, "3", other.Seal(high(same)))
	b.forge(t, hub, "4", hubKey.Seal(high(func(e *eventsv1.UsageEvent) { e.Settled = true })))
	b.forge(t, hub, "5", hubKey.Seal(high(func(e *eventsv1.UsageEvent) {
		e.EvidenceSource = eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY
	})))
	b.forge(t, bus.SubjectUsageLedger, "6", high(same)) // what only a hub may say
	b.forge(t, "usage.v1.\xff", "8", hubKey.Seal(high(same)))
	b.publish(t, "7", encode(t, event))
	b.settled(t)
	var lines, payout, rejected int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*), sum(payout_nano_usd) FROM earning_line WHERE request_id = $1`,
		event.GetRequestId()).
		Scan(&lines, &payout); err != nil {
		t.Fatal(err)
	}
	if lines != 1 {
		t.Errorf("got %d lines, want the true one", lines)
	} else if payout != 10 {
		t.Errorf("got a line of %d nano-USD, want the true one of 10", payout)
	}
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM quarantine WHERE reason LIKE 'forged%'`).Scan(
		&rejected); err != nil {
		t.Fatal(err)
	}
	if rejected != 7 {
		t.Errorf("got %d events set aside as forged, want 7", rejected)
	}
}

// TestEachEventOfABundleIsJudgedByItself publishes genuine usage beside a forgery and
// beside what is no event.
func TestEachEventOfABundleIsJudgedByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.service.ring.Take(t.Context(), "hub", hubKey); err != nil {
		t.Fatal(err)
	}
	message := usagebundle.Join([][]byte{hubKey.Seal(encode(t, b.usage(t))), encode(t, b.usage(t)),
		hubKey.Seal([]byte("junk")), hubKey.Seal(encode(t, b.usage(t)))})
	b.forge(t, bus.SubjectUsage("hub"), "1", message)
	b.forge(t, bus.SubjectUsage("hub"), "2", usagebundle.Join(usagebundle.Split(message)[:2])) // it comes again
	b.settled(t)
	if got := b.count(t, "SELECT count(*) FROM earning_line"); got != 3 {
		t.Errorf("lines: got %d, want the 2 of the bundle and the one behind it", got)
	}
	if got := b.count(t, "SELECT count(*) FROM quarantine WHERE reason LIKE 'forged: not sealed%'"); got != 2 {
		t.Errorf("events set aside as forged: got %d, want 2", got)
	}
	if got := b.count(t, "SELECT count(*) FROM quarantine WHERE reason LIKE 'forged: hub speaks%'"); got != 1 {
		t.Errorf("events set aside as none: got %d, want 1", got)
	}
}

// underKey publishes usage of requests of their own, sealed by a hub with a key,
// and returns how many of them there are.
func (b *bundle) underKey(t *testing.T, hub string, key usageseal.Key, n int) int {
	t.Helper()
	for range n {
		e := b.usage(t)
		e.HubId = hub
		b.forge(t, bus.SubjectUsage(hub), e.GetRequestId(), key.Seal(encode(t, e)))
	}
	return n
}

// lined waits until there are so many lines.
func (b *bundle) lined(t *testing.T, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for b.count(t, "SELECT count(*) FROM earning_line") < want {
		select {
		case <-ctx.Done():
			t.Fatalf("got %d lines, want %d", b.count(t, "SELECT count(*) FROM earning_line"), want)
		case <-ticker.C:
		}
	}
}

// TestUsageOfAnOutageWaitsForItsKeyHoweverMuchThereIs starts behind hubs that have
// made new keys meanwhile; what a hub makes up later holds nothing up.
func TestUsageOfAnOutageWaitsForItsKeyHoweverMuchThereIs(t *testing.T) {
	t.Parallel()
	const most = 50
	b := setup(t)
	late, later := usageseal.Key{ID: usageseal.KeyID{7}}, usageseal.Key{ID: usageseal.KeyID{8}}
	lines := b.underKey(t, "hub-1", late, 2*most)
	b.settled(t)
	lines++
	if n := b.count(t, "SELECT count(*) FROM quarantine"); n != 0 {
		t.Fatalf("got %d set aside, want all to wait for the key", n)
	}
	if n := b.count(t, "SELECT count(*) FROM earning_line"); n != 1 {
		t.Fatalf("got %d lines, want none of usage that nobody can check", n)
	}
	if err := b.service.ring.Take(t.Context(), "hub-1", late); err != nil {
		t.Fatal(err)
	}
	b.lined(t, lines)

	b.clock.Advance(usageseal.KeyWait)
	lines += b.underKey(t, "hub-1", later, 5) // the call to us has failed
	b.settled(t)
	lines++
	b.underKey(t, "hub-2", later, most+10)
	b.settled(t)
	lines++
	if n := b.count(t,
		"SELECT count(*) FROM quarantine WHERE reason LIKE 'forged: sealed with a key that hub-2%'"); n != 10 {
		t.Errorf("got %d of hub-2 set aside, want what is above the %d that wait", n, most)
	}
	if err := b.service.ring.Take(t.Context(), "hub-1", later); err != nil {
		t.Fatal(err)
	}
	b.lined(t, lines)
	if n := b.count(t,
		"SELECT count(*) FROM quarantine WHERE reason LIKE 'forged: sealed with a key that hub-1%'"); n != 0 {
		t.Errorf("got %d of hub-1 set aside, want none", n)
	}
}
