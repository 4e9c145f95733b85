package usage

import (
	"crypto/hmac"
	"crypto/sha256"

	"svc.internal/pkg/ids"
)

// Ticket proves that a request was given to the hub that shows it: no other hub has it.
type Ticket [16]byte

// Tickets makes and checks tickets. A nil Tickets checks nothing.
type Tickets struct{ key [32]byte }

// NewTickets makes tickets under a key of the ledger's own.
func NewTickets(key [32]byte) *Tickets { return &Tickets{key} }

// For returns the ticket of a request of an account.
func (t *Tickets) For(request ids.RequestID, account ids.AccountID) Ticket {
	mac := hmac.New(sha256.New, t.key[:])
	mac.Write(request[:])
	mac.Write(account[:])
	var sum [sha256.Size]byte
	return Ticket(mac.Sum(sum[:0])[:len(Ticket{})])
}

// forged reports whether an event of a hub lacks the ticket of its request.
func (t *Tickets) forged(e Event, account ids.AccountID) bool {
	if t == nil || e.EvidenceSource != Hub || e.Settled {
		return false
	}
	want := t.For(e.Request, account)
	return !hmac.Equal(want[:], e.Ticket[:])
}
