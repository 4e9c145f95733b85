package session

import (
	"crypto/ed25519"

	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Bounds of receipts: of a frame, frames a second, and receipts a second. An
// agent that comes back with all that it kept, 32,768, is heard within minutes.
const (
	maxReceipts   = 160
	receiptRate   = 20
	receiptBurst  = 100
	receiptsRate  = 200
	receiptsBurst = 4096
)

// Receipts takes what agents say that they served.
type Receipts interface {
	// Receive takes receipts of a session, or as many as there is room for;
	// the agent sends again what is not acknowledged. It is called under the
	// session's lock and must not block.
	Receive(s *Session, all []*agentv2.Receipt)
}

// Acknowledged is the end of a receipt.
type Acknowledged struct {
	Key workreceipt.Key
	// Refused says in one word why it counts for nothing; empty otherwise.
	Refused string
}

// ReceiptKey is what the node's receipts are signed with; nil when it sends
// none.
func (s *Session) ReceiptKey() ed25519.PublicKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receiptKey
}

// onReceipts needs the mutex.
func (s *Session) onReceipts(r *agentv2.Receipts) *Closing {
	switch {
	case s.receiptKey == nil:
		return protocolError("receipts came without a key at registration")
	case len(r.GetReceipts()) > maxReceipts:
		return protocolError("at most 160 receipts fit in a frame")
	case !s.receiptFrames.take(s.house.clock.Now()):
		return protocolError("too many frames of receipts")
	}
	if s.house.receipts == nil {
		return nil
	}
	all := r.GetReceipts()
	// What is too much is passed over and not answered: it comes again.
	n := s.receiptItems.takeMost(s.house.clock.Now(), len(all))
	s.house.counts.ReceiptsDropped.Add(int64(len(all) - n))
	if n > 0 {
		s.house.receipts.Receive(s, all[:n])
	}
	return nil
}

// AckReceipts tells the agent which receipts it may forget.
func (s *Session) AckReceipts(all []Acknowledged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wire, ok := s.wire.(*v2)
	if !ok {
		return // it never sent any
	}
	for len(all) > 0 {
		part := all[:min(len(all), maxReceipts)]
		all = all[len(part):]
		ack := &agentv2.ReceiptAck{Receipts: make([]*agentv2.AckedReceipt, 0, len(part))}
		for _, a := range part {
			ack.Receipts = append(ack.Receipts, &agentv2.AckedReceipt{RequestId: a.Key.Request[:], Attempt: a.Key.Attempt, Refused: a.Refused})
		}
		wire.acknowledge(ack)
	}
}

// Forged counts a receipt that no honest agent sends; the second ends the
// connection.
func (s *Session) Forged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.violations++; s.violations > 1 {
		s.shut(protocolError("forged or broken receipts"))
	}
}
