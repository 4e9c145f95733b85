package session_test

import (
	"crypto/ed25519"
	"testing"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/clock"
	. "svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// pile counts receipts.
type pile struct{ n int }

func (p *pile) Receive(_ *Session, all []Receipt) { p.n += len(all) }

func TestReceiptsOfASessionAreTakenAtABoundedRate(t *testing.T) {
	c, counts, taken := clock.NewManual(time.UnixMilli(1_790_000_000_000)), &Counts{}, &pile{}
	env := environment(Config{}, &sessiontest.Registrar{})
	env.Clock, env.Counts, env.Receipts = c, counts, taken
	d := driveIn(t, env, rules["strict"])
	defer d.pull("ends")
	d.pull("enrols")
	d.pull("granted")
	d.SetReceiptKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	flood := func(frames int) int {
		before := taken.n
		for range frames {
			d.says(Inbound{Kind: KindReceipts, Receipts: make([]Receipt, agentwire.MaxReceipts)})
			if d.State() != Live {
				_, code := d.sent()
				t.Fatalf("closed with %v", code)
			}
		}
		return taken.n - before
	}
	if n := flood(ReceiptBurst); n != ReceiptsBurst {
		t.Errorf("got %d receipts taken at once, want %d", n, ReceiptsBurst)
	}
	for range 3 {
		c.Advance(time.Second)
		if n := flood(ReceiptRate); n != ReceiptsRate {
			t.Errorf("got %d receipts taken in a second, want %d", n, ReceiptsRate)
		}
	}
	sent := int64((ReceiptBurst + 3*ReceiptRate) * agentwire.MaxReceipts)
	if dropped := counts.ReceiptsDropped.Load(); dropped != sent-int64(taken.n) {
		t.Errorf("of %d receipts %d are taken and %d counted as dropped: got %d, want %d", sent, taken.n, dropped, dropped,
			sent-int64(taken.n))
	}
}
