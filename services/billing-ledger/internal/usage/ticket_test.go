package usage

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

func randomPin(r *rand.Rand) hold.Pin {
	id := func() (id [16]byte) {
		binary.BigEndian.PutUint64(id[:], r.Uint64()|1)
		binary.BigEndian.PutUint64(id[8:], r.Uint64())
		return id
	}
	// up returns a number of any length up to most.
	up := func(most int64) int64 { return r.Int64N(most+1) >> r.IntN(40) }
	p := hold.Pin{
		Request: id(), Account: id(), Key: id(), Price: id(), Model: strings.Repeat("m", 1+r.IntN(255)),
		Billing: hold.PayAsYouGo, Amount: money.NanoUSD(up(1<<63 - 2)), Prompt: up(hold.MaxTokens),
		MaxCompletion: up(hold.MaxTokens), Images: int32(up(hold.MaxImages)), Pinned: r.IntN(2) == 1,
		Rates:     money.Rates{Input: 2_000_000, Output: 8_000_000, PayoutInput: 1_700_001, PayoutOutput: 6_800_000},
		RateLimit: int32(up(1<<31 - 2)), RateRemaining: int32(up(1<<31 - 2)), RateReset: time.Duration(up(int64(time.Hour))),
		AdmittedAt: time.UnixMicro(1_790_000_000_000_000 + r.Int64N(1e15)).UTC(), Epoch: 1 + up(1<<62),
	}
	switch r.IntN(3) {
	case 1:
		p.Rates = money.Rates{Unit: money.Image, Output: 40_000_000_000, PayoutOutput: 34_000_000_000}
	case 2:
		p.Rates, p.Billing = money.Rates{Unit: money.AudioMinute}, hold.Free
	}
	return p
}

// opens fails the test unless the ticket is genuine and says the pin.
func opens(t *testing.T, tickets *Tickets, ticket []byte, want hold.Pin) {
	t.Helper()
	got, ok := tickets.Open(ticket)
	if !ok {
		t.Fatalf("the ticket of %+v: got it refused, want it opened", want)
	}
	if got != want {
		t.Fatalf("the pin of a ticket: got %+v, want %+v", got, want)
	}
}

func TestATicketSaysAllThatItsPinSays(t *testing.T) {
	tickets, r := NewTickets([32]byte{1}), rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := randomPin(r)
		ticket := tickets.Seal(want)
		opens(t, tickets, ticket, want)
	}
}

func TestATicketIsRefusedWhenOneBitIsAnother(t *testing.T) {
	tickets := NewTickets([32]byte{1})
	ticket := tickets.Seal(randomPin(rand.New(rand.NewPCG(3, 4))))
	for bit := range 8 * len(ticket) {
		other := bytes.Clone(ticket)
		other[bit/8] ^= 1 << (bit % 8)
		if p, ok := tickets.Open(other); ok {
			t.Fatalf("bit %d of %d: got the pin %+v, want none", bit, 8*len(ticket), p)
		}
	}
}

func TestATicketOfAnotherKeyOrLengthIsRefused(t *testing.T) {
	tickets, pin := NewTickets([32]byte{1}), randomPin(rand.New(rand.NewPCG(5, 6)))
	ticket := tickets.Seal(pin)
	for name, other := range map[string][]byte{
		"of another key": NewTickets([32]byte{2}).Seal(pin),
		"empty":          {},
		"a MAC alone":    ticket[len(ticket)-16:],
		"cut":            ticket[:len(ticket)-1],
		"longer":         append(bytes.Clone(ticket), 0),
		"far too long":   make([]byte, MaxTicket+1),
	} {
		if _, ok := tickets.Open(other); ok {
			t.Errorf("a ticket that is %s: got a pin, want none", name)
		}
	}
	var none *Tickets
	if got := none.Seal(pin); got != nil {
		t.Errorf("a ticket without a key: got %x, want none", got)
	}
	if _, ok := none.Open(ticket); ok {
		t.Error("a ticket was opened without a key")
	}
}

// What the ledger itself sealed is refused too where no release makes it: the parts are checked
// beside the seal.
func TestASealedTicketIsRefusedWhenItsPartsAreNotInOrder(t *testing.T) {
	tickets, pin := NewTickets([32]byte{1}), randomPin(rand.New(rand.NewPCG(7, 8)))
	const billing = 1 + 4*16
	for name, change := range map[string]func([]byte) []byte{
		"another version":      func(b []byte) []byte { b[0] = 2; return b },
		"version 0":            func(b []byte) []byte { b[0] = 0; return b },
		"trailing byte":        func(b []byte) []byte { return append(b, 0) },
		"missing byte":         func(b []byte) []byte { return b[:len(b)-1] },
		"ids alone":            func(b []byte) []byte { return b[:billing] },
		"unknown billing type": func(b []byte) []byte { b[billing] = 3; return b },
		"no billing type":      func(b []byte) []byte { b[billing] = 0; return b },
		"pinned 2":             func(b []byte) []byte { b[billing+1] = 2; return b },
		"unknown unit":         func(b []byte) []byte { b[billing+2] = 9; return b },
		"no request":           func(b []byte) []byte { clear(b[1:17]); return b },
	} {
		b := change(appendPin(nil, &pin))
		mac := tickets.seal(b)
		if p, ok := tickets.Open(append(b, mac[:]...)); ok {
			t.Errorf("%s: got the pin %+v, want none", name, p)
		}
	}
	b := appendPin(nil, &pin)
	mac := tickets.seal(b)
	if _, ok := tickets.Open(append(b, mac[:]...)); !ok {
		t.Error("the ticket without a change: got none, want its pin")
	}
}

func TestNoTicketIsMadeOfWhatNoPlainRequestSays(t *testing.T) {
	tickets := NewTickets([32]byte{1})
	for name, change := range map[string]func(*hold.Pin){
		"a plan":                   func(p *hold.Pin) { p.Billing = hold.Plan },
		"a price for cached input": func(p *hold.Pin) { p.Rates.PayoutCachedInput = 1 },
		"rates out of order":       func(p *hold.Pin) { p.Rates.PayoutInput = p.Rates.Input + 1 },
		"no account":               func(p *hold.Pin) { p.Account = ids.AccountID{} },
		"no model":                 func(p *hold.Pin) { p.Model = "" },
		"a model too long":         func(p *hold.Pin) { p.Model = strings.Repeat("m", 256) },
		"an amount below zero":     func(p *hold.Pin) { p.Amount = -1 },
		"no slice":                 func(p *hold.Pin) { p.Epoch = 0 },
		"a prompt too large":       func(p *hold.Pin) { p.Prompt = hold.MaxTokens + 1 },
		"completions too many":     func(p *hold.Pin) { p.MaxCompletion = hold.MaxTokens + 1 },
		"images too many":          func(p *hold.Pin) { p.Images = hold.MaxImages + 1 },
		"a rate below zero":        func(p *hold.Pin) { p.RateRemaining = -1 },
		"a time before 1970":       func(p *hold.Pin) { p.AdmittedAt = time.Time{} },
		"a time in nanoseconds":    func(p *hold.Pin) { p.AdmittedAt = p.AdmittedAt.Add(1) },
	} {
		pin := randomPin(rand.New(rand.NewPCG(9, 10)))
		change(&pin)
		if got := tickets.Seal(pin); got != nil {
			t.Errorf("%s: got a ticket of %d bytes, want none", name, len(got))
		}
	}
}

func TestATicketIsShort(t *testing.T) {
	tickets := NewTickets([32]byte{1})
	pin := hold.Pin{
		Request: ids.RequestID{1}, Account: ids.AccountID{1}, Key: ids.KeyID{1}, Price: ids.PriceVersionID{1},
		Model: "qwen3-32b-instruct", Billing: hold.PayAsYouGo, Amount: 3_000_000, Prompt: 900, MaxCompletion: 1024,
		Rates:     money.Rates{Input: 200_000, Output: 800_000, PayoutInput: 170_000, PayoutOutput: 680_000},
		RateLimit: 6000, RateRemaining: 5999, RateReset: 10 * time.Millisecond,
		AdmittedAt: time.UnixMicro(1_790_000_000_000_000), Epoch: 1000,
	}
	if n := len(tickets.Seal(pin)); n > 160 {
		t.Errorf("bytes of an ordinary ticket: got %d, want at most 160", n)
	}
	pin.Model, pin.Amount, pin.Epoch = strings.Repeat("m", 255), 1<<63-1, 1<<63-1
	pin.Prompt, pin.MaxCompletion, pin.Images = hold.MaxTokens, hold.MaxTokens, hold.MaxImages
	pin.RateLimit, pin.RateRemaining, pin.RateReset = 1<<31-1, 1<<31-1, 1<<63-1
	pin.AdmittedAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	if n := len(tickets.Seal(pin)); n == 0 || n > MaxTicket {
		t.Errorf("bytes of the longest ticket: got %d, want 1 to %d", n, MaxTicket)
	}
	if maxFixed+maxModel > MaxTicket {
		t.Errorf("bytes of the longest parts: got %d, want at most %d", maxFixed+maxModel, MaxTicket)
	}
}

func TestATicketCountsForItsOwnRequestOnly(t *testing.T) {
	tickets, pin := NewTickets([32]byte{1}), randomPin(rand.New(rand.NewPCG(11, 12)))
	ticket := tickets.Seal(pin)
	own := tickets.PinOf(pin.Request, ticket)
	if own == nil {
		t.Fatalf("the pin of its request: got none, want %+v", pin)
	}
	if *own != pin {
		t.Errorf("the pin of its request: got %+v, want %+v", *own, pin)
	}
	if got := tickets.PinOf(ids.RequestID{9}, ticket); got != nil {
		t.Errorf("the pin of another request: got %+v, want none", got)
	}
	if got := tickets.PinOf(ids.RequestID{}, nil); got != nil {
		t.Errorf("the pin of no ticket: got %+v, want none", got)
	}
}

func FuzzOpen(f *testing.F) {
	tickets, r := NewTickets([32]byte{1}), rand.New(rand.NewPCG(13, 14))
	for range 5 {
		pin := randomPin(r)
		f.Add(appendPin(nil, &pin))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := tickets.Open(b); ok {
			t.Fatalf("bytes that nobody sealed: got %+v, want none", p)
		}
		mac := tickets.seal(b)
		p, ok := tickets.Open(append(bytes.Clone(b), mac[:]...))
		if !ok {
			return
		}
		opens(t, tickets, tickets.Seal(p), p)
	})
}

func BenchmarkSeal(b *testing.B) {
	tickets, pin := NewTickets([32]byte{1}), randomPin(rand.New(rand.NewPCG(15, 16)))
	b.ReportAllocs()
	for b.Loop() {
		tickets.Seal(pin)
	}
}

func BenchmarkOpen(b *testing.B) {
	tickets := NewTickets([32]byte{1})
	ticket := tickets.Seal(randomPin(rand.New(rand.NewPCG(15, 16))))
	b.ReportAllocs()
	for b.Loop() {
		tickets.Open(ticket)
	}
}
