package session

import (
	"crypto/ed25519"
	"net/netip"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// pile counts receipts.
type pile struct{ n int }

func (p *pile) Receive(_ *Session, all []*agentv2.Receipt) { p.n += len(all) }

func TestReceiptsOfASessionAreTakenAtABoundedRate(t *testing.T) {
	c, counts, taken := clock.NewManual(time.UnixMilli(1_790_000_000_000)), &Counts{}, &pile{}
	h := newHouse(Config{}.WithDefaults(), Deps{Receipts: taken, Clock: c, Counts: counts})
	s := newSession(h, speakV2, netip.Addr{})
	s.receiptKey = make(ed25519.PublicKey, ed25519.PublicKeySize)
	frame := &agentv2.Receipts{Receipts: make([]*agentv2.Receipt, maxReceipts)}
	flood := func(frames int) int {
		before := taken.n
		for range frames {
			if why := s.onReceipts(frame); why != nil {
				t.Fatalf("closed with %v", why)
			}
		}
		return taken.n - before
	}
	if n := flood(receiptBurst); n != receiptsBurst {
		t.Errorf("%d receipts are taken at once, want %d", n, receiptsBurst)
	}
	for range 3 {
		c.Advance(time.Second)
		if n := flood(receiptRate); n != receiptsRate {
			t.Errorf("%d receipts are taken in a second, want %d", n, receiptsRate)
		}
	}
	if sent := int64((receiptBurst + 3*receiptRate) * maxReceipts); counts.ReceiptsDropped.Load() != sent-int64(taken.n) {
		t.Errorf("of %d receipts %d are taken and %d counted as dropped", sent, taken.n, counts.ReceiptsDropped.Load())
	}
}
