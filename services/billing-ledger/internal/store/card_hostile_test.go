package store_test

import (
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/card"
)

// The processor does what it is asked for, and answers 500.
func TestAProcessorThatLosesItsAnswersDoesNothingTwice(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	asked := card.Checkout{ID: newCheckoutID(t), Provider: d.provider, Amount: 2000, ReturnURL: "https://market.example/"}
	d.processor.lost = true
	if _, err := d.checkouts.OpenCollateral(t.Context(), asked); !fault.Is(err, fault.ProcessorUnavailable) {
		t.Fatalf("got the error %v, want the reason %s", err, fault.ProcessorUnavailable)
	}
	c, err := d.checkouts.OpenCollateral(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(d.processor.sessions); got != 1 {
		t.Errorf("sessions: got %d, want 1", got)
	}
	d.processor.pay(c.SessionID)
	d.look(t, card.Object{Kind: card.SessionObject, ID: c.SessionID})
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}
	d.processor.lost = true
	d.back(t, r, card.Asked)
	d.due(t)
	d.worker.Look(t.Context())
	d.back(t, r, card.ByCard)
	if got := d.processor.refunds; got != 1 {
		t.Errorf("refunds at the processor: got %d, want 1", got)
	}
	d.sound(t)
}

// One payment, or one balance transaction, is said to be that of two checkouts.
func TestAPaymentOfTwoCheckoutsIsAnAlarm(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(first string, s *card.Session){
		"payment":                  func(first string, s *card.Session) { s.Charge.PaymentID = "pi_" + first },
		"balance transaction":      func(first string, s *card.Session) { s.Charge.CostID = "bt_" + first },
		"balance of another costs": func(first string, s *card.Session) { s.Charge.CostID, s.Charge.Cost = "bt_"+first, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			first, second := d.paid(t), d.ask(t)
			d.processor.pay(second.SessionID)
			d.processor.rewrite(second.SessionID, func(s *card.Session) { change(first.SessionID, s) })
			for range 2 {
				d.look(t, card.Object{Kind: card.SessionObject, ID: second.SessionID})
			}
			d.wantCollateral(t, collateralOf20)
			d.wantAlarms(t, card.AlarmPaidTwice)
			d.sound(t)
		})
	}
}

// The processor answers with another object than it was asked for.
func TestAnObjectThatIsNotTheOneAskedForIsAnAlarm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	paid, open := d.paid(t), d.ask(t)
	other := d.processor.sessions[paid.SessionID]
	d.processor.rewrite(open.SessionID, func(s *card.Session) { *s = other })
	back := d.processor.dispute(paid.SessionID, 500)
	swapped := d.processor.returns[back.ID]
	swapped.ID = "dp_other"
	d.processor.returns[back.ID] = swapped
	kind := card.Object{Kind: card.RefundObject, ID: "re_kind"}
	d.processor.returns[kind.ID] = card.Return{Object: card.Object{Kind: card.DisputeObject, ID: kind.ID},
		PaymentID: swapped.PaymentID, Checkout: swapped.Checkout, Amount: 1, Currency: "usd", State: card.ReturnMade}
	d.look(t, card.Object{Kind: card.SessionObject, ID: open.SessionID})
	d.look(t, back)
	d.look(t, kind)
	d.wantCollateral(t, collateralOf20)
	d.wantAlarms(t, card.AlarmDiffers, card.AlarmDiffers, card.AlarmDiffers)
	d.sound(t)
}

// A dispute names a checkout of ours that is not that of its payment.
func TestADisputeOfAnotherCheckoutThanItsPaymentIsAnAlarm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first, second := d.paid(t), d.paid(t)
	back := d.processor.dispute(first.SessionID, 500)
	r := d.processor.returns[back.ID]
	r.Checkout = second.ID.String()
	d.processor.returns[back.ID] = r
	for range 2 {
		d.look(t, back)
	}
	d.wantCollateral(t, 2*collateralOf20)
	d.wantAlarms(t, card.AlarmDiffers)
	d.sound(t)
}

// What a processor says is bounded and readable before it is kept.
func TestIDsThatAreNoneAreAlarmsAndNoPayment(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"empty": "", "long": strings.Repeat("x", 256), "zero": "pi_\x00",
		"spaces": "pi 1", "binary": "pi_\xff"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			payment, cost := d.ask(t), d.ask(t)
			for _, c := range []card.Checkout{payment, cost} {
				d.processor.pay(c.SessionID)
			}
			d.processor.rewrite(payment.SessionID, func(s *card.Session) { s.Charge.PaymentID = id })
			d.processor.rewrite(cost.SessionID, func(s *card.Session) { s.Charge.CostID = id })
			for _, c := range []card.Checkout{payment, cost} {
				d.look(t, card.Object{Kind: card.SessionObject, ID: c.SessionID})
			}
			d.wantCollateral(t, 0)
			d.wantAlarms(t, card.AlarmDiffers, card.AlarmDiffers)
			fresh, err := d.cards.Raise(t.Context(), card.Alarm{Reason: card.AlarmForeign, Object: id, Detail: id})
			if err != nil {
				t.Fatal(err)
			}
			if !fresh {
				t.Error("an alarm about it is new: got false, want true")
			}
		})
	}
}

// A processor that says otherwise of a payment than it did decides no refund.
func TestABalanceThatIsNotThePaymentsDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]card.Balance{"nothing": {}, "more": {Total: 3000},
		"below zero": {Total: 2000, Returned: -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			c := d.paid(t)
			d.processor.refused = true
			said := d.processor.balances["pi_"+c.SessionID]
			d.processor.balances["pi_"+c.SessionID] = b
			r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}
			d.back(t, r, card.Asked)
			d.due(t)
			d.worker.Look(t.Context())
			d.back(t, r, card.Asked)
			d.wantAlarms(t, card.AlarmDiffers)
			d.processor.balances["pi_"+c.SessionID] = said
			d.back(t, r, card.FromBank)
			d.sound(t)
		})
	}
}

// A dispute of what was refunded has an alarm. It is won, and no event tells.
func TestAWonDisputeWithAnAlarmIsFound(t *testing.T) {
	t.Parallel()
	f := newDesk(t).refunding(t)
	back := f.processor.dispute(f.checkout.SessionID, 2000)
	f.look(t, back)
	f.wantAlarms(t, card.AlarmExceeds)
	f.processor.win(back)
	f.processor.listed = []card.Object{back, {Kind: card.WonObject, ID: back.ID}}
	f.due(t)
	f.worker.Look(t.Context())
	f.wantCollateral(t, 5*usd)
	if got := f.balance(t, "a:provider_receivable"); got != 0 {
		t.Errorf("owed: got %v, want nothing", got)
	}
	f.sound(t)
}

// A checkout whose page is over, and of which the processor knows nothing, is looked at no more.
func TestASessionThatIsGoneIsNotLookedAtForEver(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.ask(t)
	delete(d.processor.sessions, c.SessionID)
	due := func() string {
		d.due(t)
		d.worker.Look(t.Context())
		return fmt.Sprint(scan[int64](t, d.env, `SELECT count(*) FROM checkout WHERE due_at IS NOT NULL`))
	}
	if got := due(); got != "1" {
		t.Errorf("checkouts to look at while the page counts: got %s, want 1", got)
	}
	d.exec(t, `UPDATE checkout SET expires_at = now()`)
	if got := due(); got != "0" {
		t.Errorf("checkouts to look at when it is over: got %s, want 0", got)
	}
	d.wantAlarms(t, card.AlarmMissing)
	d.sound(t)
}
