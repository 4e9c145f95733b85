package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/card"
)

// tale is everything that happens to a card payment: it is asked for, paid, partly
// refunded, the card does not take the refund, which is made again, and the payment is disputed,
// and the dispute is won. Each step may break, and is repeated as its caller would.
type tale struct {
	*desk
	checkout card.Checkout
	refund   card.Refund
	receiver *card.Receiver
	keys     card.Keys
}

func (a *tale) tell(t *testing.T, s card.Store) {
	t.Helper()
	a.open(s)
	a.receiver.Store = s
	again := func(step string, do func() error) {
		t.Helper()
		err := do()
		if err != nil {
			err = do() // whoever calls, or sends, tries again
		}
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	again("open", func() error {
		made, err := a.checkouts.OpenCollateral(t.Context(), a.checkout)
		if err == nil {
			a.checkout = made
		}
		return err
	})
	a.processor.pay(a.checkout.SessionID)
	a.happen(t, again, "evt_paid", "checkout.session.completed", a.checkout.SessionID)
	again("refund", func() error {
		stands, err := a.refunds.Ask(t.Context(), a.refund)
		if err == nil && stands.State != card.ByCard {
			a.lookAgain(t)
			err = fmt.Errorf("it is %s", stands.State)
		}
		return err
	})
	failed := a.processor.fails(a.refund.ID.String())
	a.happen(t, again, "evt_failed", "refund.failed", failed.ID)
	back := a.processor.dispute(a.checkout.SessionID, 500)
	a.happen(t, again, "evt_back", "charge.dispute.created", back.ID)
	a.processor.win(back)
	a.happen(t, again, "evt_won", "charge.dispute.funds_reinstated", back.ID)
}

// happen sends an event twice, and looks until nothing is due.
func (a *tale) happen(t *testing.T, again func(string, func() error), id, kind, object string) {
	t.Helper()
	body := []byte(fmt.Sprintf(`{"id":%q,"type":%q,"data":{"object":{"id":%q}}}`, id, kind, object))
	for range 2 {
		again(id, func() error {
			return a.receiver.Receive(t.Context(), body, a.keys.Sign(body, a.receiver.Clock.Now()))
		})
		a.lookAgain(t)
	}
}

// lookAgain looks twice, the second time as another process after a crash.
func (a *tale) lookAgain(t *testing.T) {
	t.Helper()
	for range 2 {
		a.due(t)
		a.worker.Look(t.Context())
	}
}

// A process dies before or after each thing that is committed. Whatever it is, the tale
// ends alike: everything is posted once.
func TestACrashAtAnyArrowChangesNothing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{
		"", "Open", "SetSession", "KeepEvent", "Pay", "EventHandled", "AskRefund", "EndRefund", "FailRefund", "Reverse",
		"Win",
	} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s after=%t", method, after), func(t *testing.T) {
				t.Parallel()
				d := newDesk(t)
				keys, err := card.NewKeys("the secret of these webhooks")
				if err != nil {
					t.Fatal(err)
				}
				breaking := &brittle{Cards: d.cards, fails: method, after: after}
				a := &tale{desk: d, keys: keys,
					receiver: &card.Receiver{Processor: "sandbox", Keys: keys, Clock: clock.System, Wake: func() {}},
					checkout: card.Checkout{ID: newCheckoutID(t), Provider: d.provider, Amount: 2000,
						ReturnURL: "https://market.example/"}}
				a.refund = card.Refund{ID: newRefundID(t), Checkout: a.checkout.ID, Amount: 700}
				a.tell(t, breaking)
				if breaking.broke != (method != "") {
					t.Errorf("broke: got %t, want %t", breaking.broke, method != "")
				}
				d.wantCollateral(t, collateralOf20)
				if d.processor.refunds != 2 {
					t.Errorf("refunds at the processor: got %d, want 2", d.processor.refunds)
				}
				if n := scan[int64](t, d.env, `SELECT count(*) FROM entry WHERE kind LIKE '%card%'`); n != 3 {
					t.Errorf("entries: got %d, want 3", n)
				}
				want := "[paid refund_ended refund_failed refund_ended reversed dispute_won]"
				if got := fmt.Sprint(d.changes(t)); got != want {
					t.Errorf("changes: got %s, want %s", got, want)
				}
				d.wantAlarms(t)
				d.sound(t)
			})
		}
	}
}

// Two replicas look while payments, refunds and disputes of many checkouts happen.
func TestTwoReplicasDoEverythingOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var sessions []card.Checkout
	for range card.MaxOpen {
		sessions = append(sessions, d.ask(t))
	}
	ctx, stop := context.WithCancel(t.Context())
	var replicas sync.WaitGroup
	for range 2 {
		w := d.replica(d.cards)
		replicas.Go(func() {
			for ctx.Err() == nil {
				w.Look(ctx)
			}
		})
	}
	for _, c := range sessions {
		d.processor.pay(c.SessionID)
		back := d.processor.dispute(c.SessionID, 300)
		for _, o := range []card.Object{back, {Kind: card.SessionObject, ID: c.SessionID}, back} {
			e := card.Event{Processor: "sandbox", ID: "evt_" + newRefundID(t).String(), Object: o}
			if _, err := d.cards.KeepEvent(t.Context(), e); err != nil {
				t.Error(err)
			}
		}
	}
	left := func() int64 {
		return scan[int64](t, d.env, `SELECT count(*) FROM processor_event WHERE due_at IS NOT NULL`)
	}
	for deadline := time.Now().Add(time.Minute); left() > 0 && time.Now().Before(deadline); {
		d.due(t)
	}
	stop()
	replicas.Wait()
	if n := left(); n != 0 {
		t.Errorf("events that are not handled: got %d, want 0", n)
	}
	d.wantCollateral(t, card.MaxOpen*17*usd)
	d.wantAlarms(t)
	d.sound(t)
}
