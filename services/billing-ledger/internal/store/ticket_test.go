package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/slice"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// pinWriter is a replica that owns no slice.
type pinWriter struct{ *store.Store }

func (w pinWriter) Write(ctx context.Context, pins []hold.Pin) error { return w.WritePins(ctx, pins) }

// bearer is a replica that is told of requests whose holds are not written, with their tickets.
type bearer struct {
	*sliceOwner
	tickets *usage.Tickets
	settler *usage.Settler
	// released counts the holds that reports released.
	released int
}

// bearer returns a replica whose clock is ahead of the database's, so that it takes no request for one that
// began just now.
func (o *sliceOwner) bearer(ahead time.Duration) *bearer {
	b := &bearer{sliceOwner: o, tickets: usage.NewTickets([32]byte{1})}
	b.settler = &usage.Settler{Store: o.store, Tickets: b.tickets, Pins: pinWriter{o.store},
		Clock: clock.NewManual(time.Now().Add(ahead))}
	return b
}

func (b *bearer) usage(t testing.TB, p hold.Pin, tokens int64) usage.Delivery {
	t.Helper()
	d := b.served(t, hold.Reservation{AdmitRequest: hold.AdmitRequest{Request: p.Request, Model: p.Model}, Price: p.Price,
		Rates: p.Rates}, tokens)
	d.Event.MAC, d.Ticket = b.tickets.For(p.Request, p.Account), b.tickets.Seal(p)
	return d
}

func (b *bearer) settles(t testing.TB, want usage.Result, batch ...usage.Delivery) {
	t.Helper()
	results, err := b.settler.Settle(t.Context(), batch, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r != want {
			t.Errorf("delivery %d: got %s, want %s", i, r, want)
		}
	}
}

func (b *bearer) concludes(t testing.TB, all ...hold.RequestReport) {
	t.Helper()
	c := &hold.Concluder{Store: b.store, Pins: b.settler.Pins, Clock: b.settler.Clock,
		Observe: func(n int) { b.released += n }}
	if err := c.Conclude(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

func TestUsageBeforeItsHoldIsWrittenIsChargedOnceAndFromItsSlice(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"young requests": 0, "old requests": time.Hour} {
		e := setup(t, unlimited)
		o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
		b := o.bearer(ahead)
		s := o.opens(t, c, 20)
		pins := o.pins(t, c, s, 3, 4, 5)
		first, second := b.usage(t, pins[0], 2), b.usage(t, pins[1], 4)
		b.settles(t, usage.Settled, first, second)
		b.settles(t, usage.Duplicate, first, second)
		e.wantWallet(t, c, 100*money.USD-6*cent, 0)
		e.wantHeld(t, c, 13, 13)
		// The owner writes them too, and fills the slice again.
		o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Pins: pins, Want: 15 * cent, Places: 10})
		e.wantHeld(t, c, 15, 20)
		if n := e.inflight(t, c); n != 1 {
			t.Errorf("%s: under way: got %d, want 1", name, n)
		}
		b.settles(t, usage.Settled, b.usage(t, pins[2], 1))
		b.settles(t, usage.Duplicate, first, second)
		e.wantWallet(t, c, 100*money.USD-7*cent, 0)
		e.sound(t)
	}
}

func TestUsageOfAnOwnerThatWasKilledIsCharged(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	b := o.bearer(time.Hour)
	s := o.opens(t, c, 20)
	pins := o.pins(t, c, s, 3, 4)
	o.dies(t)
	e.admitOne(t, e.reservation(t, c, 1), hold.Admitted) // which strands the slice
	b.settles(t, usage.Settled, b.usage(t, pins[0], 2))
	e.wantHeld(t, c, 17, 18)
	e.exec(t, `UPDATE wallet w SET held = w.held - s.amount FROM slice s WHERE s.account_id = w.account_id`)
	e.exec(t, `DELETE FROM slice`) // its time is over
	b.settles(t, usage.Settled, b.usage(t, pins[1], 4))
	e.wantWallet(t, c, 100*money.USD-6*cent, cent)
	e.sound(t)
}

func TestAReportBeforeItsHoldIsWrittenIsKeptAndFreesItsPlaceOnce(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"young requests": 0, "old requests": time.Hour} {
		e := setup(t, unlimited)
		o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
		b := o.bearer(ahead)
		s := o.opens(t, c, 20)
		pins := o.pins(t, c, s, 3, 4)
		served, failed := servedWord(pins[0].Request, 2), hold.RequestReport{Request: pins[1].Request, Outcome: "failed",
			HTTPStatus: 502, Attempts: []hold.Attempt{}}
		served.Pin, failed.Pin = &pins[0], &pins[1]
		unknown := hold.RequestReport{Request: request(t), Outcome: "failed", Attempts: []hold.Attempt{}}
		b.concludes(t, served, failed, unknown)
		b.concludes(t, failed, served)
		if n := scan[int64](t, e, `SELECT count(*) FROM request_report`); n != 2 {
			t.Errorf("%s: reports: got %d, want 2", name, n)
		}
		if b.released != 1 {
			t.Errorf("%s: holds released: got %d, want the one of which nothing was relayed", name, b.released)
		}
		if n := e.inflight(t, c); n != 0 {
			t.Errorf("%s: under way: got %d, want none", name, n)
		}
		e.wantHeld(t, c, 13, 16)
		b.settles(t, usage.Settled, b.usage(t, pins[0], 2))
		o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Pins: pins, Want: 13 * cent, Places: 10})
		if n := e.inflight(t, c); n != 0 {
			t.Errorf("%s: under way after the owner's turn: got %d, want none", name, n)
		}
		e.wantWallet(t, c, 100*money.USD-2*cent, 0)
		e.sound(t)
	}
}

func TestARenewalBeforeItsHoldIsWrittenIsKept(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	s := o.opens(t, c, 20)
	pins := o.pins(t, c, s, 3, 4)
	long, released := running(pins[0].Request, 5), running(pins[1].Request, 5)
	long.Pin, released.Pin = &pins[0], &pins[1]
	renewer := &hold.Renewer{Store: e.store, Pins: pinWriter{e.store}}
	lapsed, err := renewer.Renew(t.Context(), []hold.Renewal{long, released, running(request(t), 1)})
	if err != nil {
		t.Fatal(err)
	}
	if len(lapsed) != 0 {
		t.Errorf("given back: got %v, want none", lapsed)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM renewal WHERE relayed_tokens = 5`); n != 2 {
		t.Errorf("renewals: got %d, want 2", n)
	}
	e.wantHeld(t, c, 13, 20)
	e.release(t, pins[1].Request)
	lapsed, err = renewer.Renew(t.Context(), []hold.Renewal{long, released})
	if err != nil {
		t.Fatal(err)
	}
	if want := []ids.RequestID{pins[1].Request}; !slices.Equal(lapsed, want) {
		t.Errorf("given back: got %v, want %v", lapsed, want)
	}
	e.sound(t)
}

func TestAForgedTicketIsQuarantinedAsBefore(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	b := o.bearer(0)
	s := o.opens(t, c, 20)
	pins := o.pins(t, c, s, 3, 4)
	forged := b.usage(t, pins[0], 2)
	forged.Ticket[30] ^= 1
	b.settles(t, usage.UnknownRequest, forged)
	other := b.usage(t, pins[0], 2)
	other.Ticket = b.tickets.Seal(pins[1])
	other.Payload = []byte("another event")
	b.settles(t, usage.UnknownRequest, other)
	if n := scan[int64](t, e, `SELECT count(*) FROM quarantine WHERE reason = 'unknown_request'`); n != 2 {
		t.Errorf("quarantined: got %d, want 2", n)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM hold`); n != 0 {
		t.Errorf("holds: got %d, want none", n)
	}
	e.wantHeld(t, c, 20, 20)
	e.sound(t)
}

func TestUsageOfTheReleaseBeforeComesAgainUntilItsHoldIsWritten(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	b := o.bearer(0)
	s := o.opens(t, c, 20)
	pins := o.pins(t, c, s, 3)
	d := b.usage(t, pins[0], 2)
	d.Ticket = nil
	b.settles(t, usage.Early, d)
	if n := scan[int64](t, e, `SELECT count(*) FROM quarantine`); n != 0 {
		t.Errorf("quarantined: got %d, want none", n)
	}
	o.turn(t, slice.Turn{Account: c.account, Epoch: s.Epoch, Pins: pins, Want: 20 * cent, Places: 10})
	b.settles(t, usage.Settled, d)
	e.wantWallet(t, c, 100*money.USD-2*cent, 0)
	e.sound(t)
}

func TestAPinThatTheDatabaseRefusesIsRefusedForGood(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	pins := o.pins(t, c, o.opens(t, c, 20), 3, 4)
	pins[0].Images = -1
	if err := e.store.WritePins(t.Context(), pins); !errors.Is(err, usage.ErrRefused) {
		t.Errorf("got %v, want %v", err, usage.ErrRefused)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM hold`); n != 0 {
		t.Errorf("holds: got %d, want none", n)
	}
	e.wantHeld(t, c, 20, 20)
	e.sound(t)
}
