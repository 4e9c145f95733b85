package usage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

// MAC proves that a request was given to the hub that shows it: no other hub has it.
type MAC [16]byte

// MaxTicket bounds a ticket, in bytes.
const MaxTicket = 512

// Tickets makes and checks what the ledger gives along with an admitted request: the MAC, and the
// ticket, from which the request's hold can be written. A nil Tickets makes nothing, checks no
// MAC and opens no ticket.
//
// A ticket is a version (1 byte), the parts of a pin in the order of appendPin, and 16 bytes of
// HMAC-SHA-256 over all of it.
type Tickets struct{ macs, seals sync.Pool }

// NewTickets makes tickets and MACs under keys derived from one key of the ledger's own.
func NewTickets(key [32]byte) *Tickets {
	// A MAC is over 32 bytes of ids, as it was before there were tickets. So tickets have a key of
	// their own, and no MAC of a request can be the seal of a ticket.
	of := hmac.New(sha256.New, key[:])
	of.Write([]byte("svc ticket"))
	sealing := of.Sum(nil)
	return &Tickets{
		macs:  sync.Pool{New: func() any { return newKeyed(key[:]) }},
		seals: sync.Pool{New: func() any { return newKeyed(sealing) }},
	}
}

// keyed is an HMAC that is used again, because a new one hashes its key and allocates.
type keyed struct {
	hash hash.Hash
	ids  [32]byte
	sum  [sha256.Size]byte
}

func newKeyed(key []byte) *keyed { return &keyed{hash: hmac.New(sha256.New, key)} }

func (k *keyed) over(b []byte) MAC {
	k.hash.Reset()
	k.hash.Write(b)
	return MAC(k.hash.Sum(k.sum[:0])[:len(MAC{})])
}

// For returns the MAC of a request of an account.
func (t *Tickets) For(request ids.RequestID, account ids.AccountID) MAC {
	k := t.macs.Get().(*keyed)
	defer t.macs.Put(k)
	copy(k.ids[copy(k.ids[:], request[:]):], account[:])
	return k.over(k.ids[:])
}

// seal returns the last part of a ticket, which is over all others.
func (t *Tickets) seal(b []byte) MAC {
	k := t.seals.Get().(*keyed)
	defer t.seals.Put(k)
	return k.over(b)
}

// forged reports whether an event of a hub lacks the MAC of its request.
func (t *Tickets) forged(e Event, account ids.AccountID) bool {
	if t == nil || e.EvidenceSource != Hub || e.Settled {
		return false
	}
	want := t.For(e.Request, account)
	return !hmac.Equal(want[:], e.MAC[:])
}

// ticketVersion is the version of the tickets that Seal makes, and the only one that Open takes.
// A release that makes another takes this one too, because tickets of the release before are
// under way when it starts.
const ticketVersion = 1

// The billing types of plain requests, by their numbers in a ticket.
const (
	payAsYouGoPin = iota + 1
	freePin
)

// Bounds of what a ticket holds. maxFixed is more than all parts but the model take together.
const (
	maxFixed = 1 + 4*16 + 3 + 14*binary.MaxVarintLen64 + len(MAC{})
	maxModel = maxText
)

// Seal returns the ticket of a pin, at most MaxTicket bytes. It is empty for a pin that no ticket
// can hold: one of a plan or with a price for cached input, which no plain request has, or one
// that is out of all bounds.
func (t *Tickets) Seal(p hold.Pin) []byte {
	if t == nil || !sealable(&p) {
		return nil
	}
	b := appendPin(make([]byte, 0, maxFixed+len(p.Model)), &p)
	mac := t.seal(b)
	return append(b, mac[:]...)
}

// sealable reports whether p is within the bounds that Open expects.
func sealable(p *hold.Pin) bool {
	switch {
	case p.Billing != hold.PayAsYouGo && p.Billing != hold.Free,
		p.Request.IsZero() || p.Account.IsZero() || p.Key.IsZero() || p.Price.IsZero(),
		p.Model == "" || len(p.Model) > maxModel,
		p.Amount < 0 || p.Epoch < 1,
		p.Prompt < 0 || p.Prompt > hold.MaxTokens || p.MaxCompletion < 0 || p.MaxCompletion > hold.MaxTokens,
		p.Images < 0 || p.Images > hold.MaxImages,
		p.RateLimit < 0 || p.RateRemaining < 0 || p.RateReset < 0,
		p.AdmittedAt.UnixMicro() < 0 || !p.AdmittedAt.Equal(p.AdmittedAt.Truncate(time.Microsecond)),
		p.Rates.PayoutCachedInput != 0 || p.Rates.Validate() != nil:
		return false
	}
	return true
}

// appendPin encodes a pin: ids whole, numbers as varints, of which no one is negative.
func appendPin(b []byte, p *hold.Pin) []byte {
	b = append(b, ticketVersion)
	b = append(b, p.Request[:]...)
	b = append(b, p.Account[:]...)
	b = append(b, p.Key[:]...)
	b = append(b, p.Price[:]...)
	billing, pinned := byte(payAsYouGoPin), byte(0)
	if p.Billing == hold.Free {
		billing = freePin
	}
	if p.Pinned {
		pinned = 1
	}
	b = append(b, billing, pinned, byte(p.Rates.Unit))
	for _, n := range [...]int64{
		int64(p.Rates.Input), int64(p.Rates.Output), int64(p.Rates.PayoutInput), int64(p.Rates.PayoutOutput),
		int64(p.Amount), p.Prompt, p.MaxCompletion, int64(p.Images),
		int64(p.RateLimit), int64(p.RateRemaining), int64(p.RateReset), p.AdmittedAt.UnixMicro(), p.Epoch,
		int64(len(p.Model)),
	} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return append(b, p.Model...)
}

// Open returns the pin of a ticket. It returns false for all that Seal did not make under this
// key.
func (t *Tickets) Open(b []byte) (hold.Pin, bool) {
	end := len(b) - len(MAC{})
	if t == nil || end < 1 || len(b) > MaxTicket || b[0] != ticketVersion {
		return hold.Pin{}, false
	}
	if mac := t.seal(b[:end]); !hmac.Equal(mac[:], b[end:]) && !crash.Planted(crash.TicketUnchecked) {
		return hold.Pin{}, false
	}
	r := ticketReader{rest: b[1:end]}
	p := r.pin()
	if r.malformed || len(r.rest) != 0 || !sealable(&p) {
		return hold.Pin{}, false
	}
	return p, true
}

// ticketReader reads what appendPin wrote. After a part that is malformed it reads zeros.
type ticketReader struct {
	rest      []byte
	malformed bool
}

func (r *ticketReader) pin() (p hold.Pin) {
	copy(p.Request[:], r.take(len(p.Request)))
	copy(p.Account[:], r.take(len(p.Account)))
	copy(p.Key[:], r.take(len(p.Key)))
	copy(p.Price[:], r.take(len(p.Price)))
	switch r.byte() {
	case payAsYouGoPin:
		p.Billing = hold.PayAsYouGo
	case freePin:
		p.Billing = hold.Free
	default:
		r.malformed = true
	}
	pinned := r.byte()
	p.Pinned = pinned == 1
	r.malformed = r.malformed || pinned > 1
	p.Rates.Unit = money.Unit(r.byte())
	p.Rates.Input, p.Rates.Output = money.PicoUSD(r.number()), money.PicoUSD(r.number())
	p.Rates.PayoutInput, p.Rates.PayoutOutput = money.PicoUSD(r.number()), money.PicoUSD(r.number())
	p.Amount, p.Prompt, p.MaxCompletion = money.NanoUSD(r.number()), r.number(), r.number()
	p.Images, p.RateLimit, p.RateRemaining = r.small(), r.small(), r.small()
	p.RateReset = time.Duration(r.number())
	p.AdmittedAt = time.UnixMicro(r.number()).UTC()
	p.Epoch = r.number()
	p.Model = string(r.take(int(min(r.number(), maxModel+1))))
	return p
}

func (r *ticketReader) take(n int) []byte {
	if r.malformed || n > len(r.rest) {
		r.malformed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *ticketReader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// number reads a number that is not negative.
func (r *ticketReader) number() int64 {
	n, size := binary.Uvarint(r.rest)
	if r.malformed || size <= 0 || n > 1<<63-1 {
		r.malformed = true
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

// small reads a number that is not negative and fits 32 bits.
func (r *ticketReader) small() int32 {
	n := r.number()
	if n > 1<<31-1 {
		r.malformed = true
		return 0
	}
	return int32(n)
}

// PinOf returns the pin of a ticket that names this request; nil for any other.
func (t *Tickets) PinOf(request ids.RequestID, ticket []byte) *hold.Pin {
	if len(ticket) == 0 || crash.Planted(crash.TicketIgnored) {
		return nil
	}
	p, ok := t.Open(ticket)
	if !ok || p.Request != request {
		return nil
	}
	return &p
}
