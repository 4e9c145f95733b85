package session

import (
	"crypto/ed25519"
	"slices"

	"svc.internal/pkg/agentwire"
)

// ReceiptKey is the public key of the node's receipts; nil where the node sends none.
func (s *Session) ReceiptKey() ed25519.PublicKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receiptKey
}

func (s *Session) onReceiptsLocked(all []Receipt) *CloseReason {
	now := s.env.Clock.Now()
	switch {
	case s.receiptKey == nil:
		return protocolError("receipts came without a key at registration")
	case len(all) > agentwire.MaxReceipts:
		return protocolError("at most 160 receipts fit in a frame")
	case !s.receiptFrames.Take(now):
		return protocolError("too many frames of receipts")
	}
	if s.env.Receipts == nil {
		return nil
	}
	// Receipts beyond the rate are passed over and not answered: they come again.
	n := s.receiptItems.TakeUpTo(now, len(all))
	s.env.Counts.ReceiptsDropped.Add(int64(len(all) - n))
	if n > 0 {
		s.env.Receipts.Receive(s, all[:n])
	}
	return nil
}

// AckReceipts tells the agent which receipts it may forget.
func (s *Session) AckReceipts(all []Acknowledged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.limits.Strict {
		return // a lenient agent sends no receipts
	}
	for part := range slices.Chunk(all, agentwire.MaxReceipts) {
		s.pushLocked(Outbound{Kind: OutReceipts, Receipts: slices.Clone(part)})
	}
}

// Forged counts a receipt that no honest agent sends. The second violation, of this kind
// or of credit, ends the connection.
func (s *Session) Forged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.violations++; s.violations > 1 {
		s.closeLocked(shuts, protocolError("forged or broken receipts"))
	}
}
