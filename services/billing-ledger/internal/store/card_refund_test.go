package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

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
	if got.State != want {
		t.Errorf("refund: got %s, want %s", got.State, want)
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
	if err := d.worker.LookAt(t.Context(), "sandbox", back); !errors.Is(err, card.ErrRefundUnderWay) {
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

// The card's owner disputes what was refunded already. It has the money twice, and the
// provider owes it, because nobody else does.
func TestADisputeOfWhatWasRefundedIsOwedAndAnAlarm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 1500}
	asked := ledger.Fact{ID: entryID(t), BusinessID: r.ID.String()}
	post(t, d.env, must(t)(ledger.CollateralRefund(asked, d.provider, 15*usd)))
	d.back(t, r, card.ByCard)
	post(t, d.env, must(t)(ledger.CollateralRefunded(sameFact(t, asked), d.provider, ledger.CardClearing, 15*usd)))
	d.look(t, d.processor.dispute(c.SessionID, 2001))
	d.wantAlarms(t, card.AlarmExceeds)
	d.wantCollateral(t, 5*usd)
	for range 2 {
		d.look(t, d.processor.dispute(c.SessionID, 2000))
	}
	d.wantAlarms(t, card.AlarmExceeds, card.AlarmExceeds, card.AlarmExceeds)
	d.wantCollateral(t, 0)
	if got, want := d.balance(t, "a:provider_receivable"), money.NanoUSD(-15*usd); got != want {
		t.Errorf("owed: got %v, want %v", got, want)
	}
	payments, err := d.cards.Payments(t.Context(), d.provider, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := payments[0].Left(), card.Cents(-1500); got != want {
		t.Errorf("left: got %d, want %d", got, want)
	}
	d.sound(t)
}

// What the bank has not paid it does not pay any more once the card's owner has the money.
func TestARefundThatWaitsForTheBankEndsWithADispute(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.processor.refused = true
	waits, paid := d.paid(t), d.paid(t)
	refunds := map[card.CheckoutID]card.Refund{}
	for _, c := range []card.Checkout{waits, paid} {
		r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}
		asked := ledger.Fact{ID: entryID(t), BusinessID: r.ID.String()}
		post(t, d.env, must(t)(ledger.CollateralRefund(asked, d.provider, 20*usd)))
		d.back(t, r, card.FromBank)
		if c.ID == paid.ID {
			post(t, d.env, must(t)(ledger.CollateralRefunded(sameFact(t, asked), d.provider, ledger.Bank, 20*usd)))
		}
		refunds[c.ID] = r
	}
	d.look(t, d.processor.dispute(waits.SessionID, 500))
	d.back(t, refunds[waits.ID], card.Reversed)
	d.wantAlarms(t)
	d.look(t, d.processor.dispute(paid.SessionID, 500))
	d.back(t, refunds[paid.ID], card.FromBank)
	d.wantAlarms(t, card.AlarmExceeds)
	late := ledger.Fact{ID: entryID(t), BusinessID: refunds[waits.ID].ID.String()}
	_, err := d.store.Post(t.Context(), must(t)(ledger.CollateralRefunded(late, d.provider, ledger.Bank, 20*usd)))
	if !errors.Is(err, ledger.ErrNoRefund) {
		t.Errorf("the bank's payment of a reversed refund: got the error %v, want %v", err, ledger.ErrNoRefund)
	}
	d.sound(t)
}

func TestARefundThatIsReversedStaysSoWhenTheDisputeIsWon(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	back := d.processor.dispute(c.SessionID, 2000)
	d.look(t, back)
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 1500}
	d.back(t, r, card.Reversed)
	d.processor.win(back)
	for range 2 {
		d.look(t, back)
	}
	d.back(t, r, card.Reversed)
	d.wantCollateral(t, collateralOf20)
	if got, want := fmt.Sprint(d.changes(t)), "[paid reversed refund_ended dispute_won]"; got != want {
		t.Errorf("changes: got %s, want %s", got, want)
	}
	// What is collateral again can be refunded under another id.
	d.back(t, card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}, card.ByCard)
	d.sound(t)
}

// The list finds a win of which no event came, and a dispute of which nobody heard before.
func TestAWonDisputeIsFoundHoweverLateItIsHeardOf(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	heard, unheard := d.paid(t), d.paid(t)
	first, second := d.processor.dispute(heard.SessionID, 2000), d.processor.dispute(unheard.SessionID, 2000)
	d.look(t, first)
	d.processor.win(first)
	d.processor.win(second)
	d.processor.listed = []card.Object{first, second, {Kind: card.WonObject, ID: first.ID},
		{Kind: card.WonObject, ID: second.ID}}
	d.due(t)
	d.worker.Look(t.Context())
	d.wantCollateral(t, 2*collateralOf20)
	before := d.processor.fetches
	d.due(t)
	d.worker.Look(t.Context())
	if got := d.processor.fetches; got != before {
		t.Errorf("what is known was fetched again: got %d fetches, want %d", got, before)
	}
	if n := scan[int64](t, d.env, `SELECT count(*) FROM card_dispute_won`); n != 2 {
		t.Errorf("disputes that were won: got %d, want 2", n)
	}
	d.wantAlarms(t)
	d.sound(t)
}

// A refund of the processor counts if it agrees with the refund that was asked for, in every part.
func TestARefundThatIsNotOursIsAnAlarmAndMovesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*card.Return){
		"another payment":  func(r *card.Return) { r.PaymentID = "pi_other" },
		"another amount":   func(r *card.Return) { r.Amount++ },
		"another currency": func(r *card.Return) { r.Currency = "jpy" },
		"real money":       func(r *card.Return) { r.Livemode = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			c := d.paid(t)
			r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}
			d.processor.pending = true
			d.back(t, r, card.Asked)
			made := card.Object{Kind: card.RefundObject, ID: "re_" + r.ID.String()}
			other := d.processor.returns[made.ID]
			other.State = card.ReturnMade
			change(&other)
			d.processor.returns[made.ID] = other
			for range 2 {
				d.look(t, made)
				d.due(t)
				d.worker.Look(t.Context())
			}
			d.back(t, r, card.Asked)
			d.wantAlarms(t, card.AlarmDiffers)
			d.wantCollateral(t, collateralOf20)
			d.sound(t)
		})
	}
}

func TestARefundOfAnotherKeyIsAnAlarm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	ended := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 500}
	d.back(t, ended, card.ByCard)
	d.exec(t, `UPDATE card_payment SET at = now() - interval '200 days'`)
	bank := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 500}
	d.back(t, bank, card.FromBank)
	for id, key := range map[string]string{"re_word": "word", "re_nobody": newRefundID(t).String(),
		"re_again": ended.ID.String(), "re_bank": bank.ID.String()} {
		o := card.Object{Kind: card.RefundObject, ID: id}
		d.processor.returns[id] = card.Return{Object: o, PaymentID: "pi_" + c.SessionID, Key: key, Amount: 500,
			Currency: "usd", State: card.ReturnMade}
		d.look(t, o)
	}
	got := column[string](t, d.env, `SELECT reason || ' ' || split_part(object, '_', 2) FROM card_alarm ORDER BY 1`)
	want := []string{"exceeds again", "exceeds bank", "foreign nobody", "foreign word"}
	if !slices.Equal(got, want) {
		t.Errorf("alarms: got %q, want %q", got, want)
	}
	d.back(t, ended, card.ByCard)
	d.back(t, bank, card.FromBank)
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
