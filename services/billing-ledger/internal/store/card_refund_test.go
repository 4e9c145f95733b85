package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// back asks for a refund and wants it to stand so.
func (d *desk) back(t testing.TB, r card.Refund, want card.RefundState) {
	t.Helper()
	got, err := d.refunds.Ask(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("refund: got %s, want %s", got, want)
	}
}

func TestARefundIsMadeOnceHoweverOftenItIsAsked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 1500}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := d.refunds.Ask(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.back(t, r, card.ByCard)
	if d.processor.refunds != 1 {
		t.Errorf("refunds at the processor: got %d, want 1", d.processor.refunds)
	}
	for name, other := range map[string]card.Refund{
		"another amount":   {ID: r.ID, Checkout: c.ID, Amount: 1},
		"another checkout": {ID: r.ID, Checkout: d.paid(t).ID, Amount: 1500},
	} {
		if _, err := d.refunds.Ask(t.Context(), other); !fault.Is(err, fault.IdempotencyKeyReused) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.IdempotencyKeyReused)
		}
	}
	// The news of it changes nothing: settlement posts line 26.
	d.look(t, card.Object{Kind: card.RefundObject, ID: "re_" + r.ID.String()})
	d.wantCollateral(t, 2*collateralOf20)
	d.wantAlarms(t)
	d.sound(t)
}

func TestNoMoreIsRefundedThanWasPaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 6 {
		r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 700}
		all.Go(func() {
			_, err := d.refunds.Ask(t.Context(), r)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if !fault.Is(err, fault.TransitionNotAllowed) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made != 2 {
		t.Errorf("refunds of $7 of $20: got %d, want 2", made)
	}
	for name, tc := range map[string]struct {
		refund card.Refund
		want   fault.Reason
	}{
		"of an open checkout": {card.Refund{ID: newRefundID(t), Checkout: d.ask(t).ID, Amount: 1},
			fault.TransitionNotAllowed},
		"of no checkout": {card.Refund{ID: newRefundID(t), Checkout: newCheckoutID(t), Amount: 1},
			fault.CheckoutNotFound},
		"of nothing":    {card.Refund{ID: newRefundID(t), Checkout: c.ID}, fault.InvalidValue},
		"without an id": {card.Refund{Checkout: c.ID, Amount: 1}, fault.InvalidValue},
	} {
		if _, err := d.refunds.Ask(t.Context(), tc.refund); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
	d.sound(t)
}

func TestAPaymentOlderThan180DaysIsRefundedFromTheBank(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	young, old := d.paid(t), d.paid(t)
	for id, age := range map[card.CheckoutID]string{young.ID: "179 days", old.ID: "180 days"} {
		d.exec(t, `UPDATE card_payment SET at = now() - $2::interval WHERE checkout_id = $1`, id, age)
	}
	d.back(t, card.Refund{ID: newRefundID(t), Checkout: young.ID, Amount: 2000}, card.ByCard)
	d.back(t, card.Refund{ID: newRefundID(t), Checkout: old.ID, Amount: 1500}, card.FromBank)
	// The processor knows nothing of what the bank paid, and it counts all the same.
	d.back(t, card.Refund{ID: newRefundID(t), Checkout: old.ID, Amount: 500}, card.FromBank)
	if d.processor.refunds != 1 {
		t.Errorf("refunds at the processor: got %d, want 1", d.processor.refunds)
	}
	d.sound(t)
}

// Whether the card is asked is decided once. A refund that was made, and of which nobody
// heard before the payment became too old, is not paid by the bank as well.
func TestARefundThatWasAskedOfTheCardIsNeverTheBanksToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 500}
	d.open(&brittle{Cards: d.cards, fails: "EndRefund"})
	d.back(t, r, card.Asked)
	d.exec(t, `UPDATE card_payment SET at = now() - interval '1 year'`)
	d.open(d.cards)
	d.due(t)
	d.worker.Look(t.Context())
	d.back(t, r, card.ByCard)
	if d.processor.refunds != 1 {
		t.Errorf("refunds at the processor: got %d, want 1", d.processor.refunds)
	}
	d.sound(t)
}

func TestARefusedRefundIsTheBanksUnlessTheMoneyIsBackAlready(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	refused, disputed := d.paid(t), d.paid(t)
	d.processor.refused = true
	d.back(t, card.Refund{ID: newRefundID(t), Checkout: refused.ID, Amount: 2000}, card.FromBank)

	// A dispute that nobody here has heard of takes the money first.
	back := d.processor.dispute(disputed.SessionID, 2000)
	d.back(t, card.Refund{ID: newRefundID(t), Checkout: disputed.ID, Amount: 2000}, card.Reversed)
	d.look(t, back)
	d.wantCollateral(t, collateralOf20) // line 26 of the refunds is settlement's
	d.wantAlarms(t)
	d.sound(t)
}

// While it is not known how a refund ends, a dispute of the same money waits.
func TestADisputeWaitsForTheRefundThatIsUnderWay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	d.open(&brittle{Cards: d.cards, fails: "EndRefund"})
	d.processor.refused = true
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}
	d.back(t, r, card.Asked)
	back := d.processor.dispute(c.SessionID, 2000)
	if err := d.worker.LookAt(t.Context(), back); !errors.Is(err, card.ErrRefundUnderWay) {
		t.Fatalf("got the error %v, want %v", err, card.ErrRefundUnderWay)
	}
	d.due(t)
	d.worker.Look(t.Context())
	d.back(t, r, card.Reversed)
	d.look(t, back)
	d.wantCollateral(t, 0)
	d.wantAlarms(t)
	d.sound(t)
}

func TestADisputeBeyondWhatIsLeftIsAnAlarm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	d.back(t, card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 1000}, card.ByCard)
	d.look(t, d.processor.dispute(c.SessionID, 1001))
	d.wantAlarms(t, card.AlarmExceeds)
	d.look(t, d.processor.dispute(c.SessionID, 1000))
	d.wantCollateral(t, 10*usd)
	d.sound(t)
}

// A provider that spent its collateral owes what its card took back.
func TestWhatIsNoLongerThereIsOwed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	refund := must(t)(ledger.CollateralRefund(newFact(t), d.provider, 12*usd))
	post(t, d.env, refund)
	d.look(t, d.processor.dispute(c.SessionID, 2000))
	if got, want := d.balance(t, "a:provider_receivable"), money.NanoUSD(-12*usd); got != want {
		t.Errorf("owed: got %v, want %v", got, want)
	}
	d.wantCollateral(t, 0)
	d.sound(t)
}

func TestAPendingRefundIsLookedAtUntilItEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	d.processor.pending = true
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}
	d.back(t, r, card.Asked)
	made := "re_" + r.ID.String()
	d.look(t, card.Object{Kind: card.RefundObject, ID: made})
	d.due(t)
	d.worker.Look(t.Context())
	d.back(t, r, card.Asked)
	ended := d.processor.returns[made]
	ended.State = card.ReturnMade
	d.processor.returns[made] = ended
	d.look(t, card.Object{Kind: card.RefundObject, ID: made})
	d.back(t, r, card.ByCard)
	d.sound(t)
}

// tale is everything that happens to a card payment: it is asked for, paid, partly
// refunded and disputed. Each step may break, and is repeated as its caller would.
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
		state, err := a.refunds.Ask(t.Context(), a.refund)
		if err == nil && state != card.ByCard {
			a.lookAgain(t)
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	back := a.processor.dispute(a.checkout.SessionID, 500)
	a.happen(t, again, "evt_back", "charge.dispute.created", back.ID)
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
		"", "Open", "SetSession", "KeepEvent", "Pay", "EventHandled", "AskRefund", "EndRefund", "Reverse",
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
				a := &tale{desk: d, keys: keys, receiver: &card.Receiver{Keys: keys, Clock: clock.System, Wake: func() {}},
					checkout: card.Checkout{ID: newCheckoutID(t), Provider: d.provider, Amount: 2000,
						ReturnURL: "https://market.example/"}}
				a.refund = card.Refund{ID: newRefundID(t), Checkout: a.checkout.ID, Amount: 700}
				a.tell(t, breaking)
				if breaking.broke != (method != "") {
					t.Errorf("broke: got %t, want %t", breaking.broke, method != "")
				}
				d.wantCollateral(t, 15*usd)
				if d.processor.refunds != 1 {
					t.Errorf("refunds at the processor: got %d, want 1", d.processor.refunds)
				}
				if n := scan[int64](t, d.env, `SELECT count(*) FROM entry WHERE kind LIKE '%card%'`); n != 3 {
					t.Errorf("entries: got %d, want 3", n)
				}
				if got, want := fmt.Sprint(d.changes(t)), "[paid refund_ended reversed]"; got != want {
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
			e := card.Event{ID: "evt_" + newRefundID(t).String(), Object: o}
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
