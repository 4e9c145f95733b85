package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// refunding is a refund of $15 of a payment of $20, of which the books know.
type refunding struct {
	*desk
	checkout card.Checkout
	refund   card.Refund
}

func (d *desk) refunding(t *testing.T) *refunding {
	t.Helper()
	c := d.paid(t)
	f := &refunding{desk: d, checkout: c,
		refund: card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 1500, Attempt: 1}}
	post(t, d.env, must(t)(ledger.CollateralRefund(f.fact(t), d.provider, 15*usd)))
	d.back(t, f.refund, card.ByCard)
	return f
}

// fact is the attempt that is the last, for the books.
func (f *refunding) fact(t *testing.T) ledger.Fact {
	t.Helper()
	return ledger.Fact{ID: entryID(t), BusinessID: f.refund.Key()}
}

// posts has the books pay the attempt.
func (f *refunding) posts(t *testing.T, from ledger.AccountKind) {
	t.Helper()
	post(t, f.env, must(t)(ledger.CollateralRefunded(f.fact(t), f.provider, from, 15*usd)))
}

// fails has the card not take the attempt.
func (f *refunding) fails(t *testing.T) card.Object {
	t.Helper()
	failed := f.processor.fails(f.refund.Key())
	f.look(t, failed)
	f.refund.Attempt++
	return failed
}

// again has the next attempt begin, and wants the refund to stand so.
func (f *refunding) again(t *testing.T, want card.RefundState) {
	t.Helper()
	f.due(t)
	f.worker.Look(t.Context())
	got, err := f.refunds.Ask(t.Context(), f.refund)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != want {
		t.Errorf("refund: got %s, want %s", got.State, want)
	}
	if got.Attempt != f.refund.Attempt {
		t.Errorf("attempt: got %d, want %d", got.Attempt, f.refund.Attempt)
	}
}

func (f *refunding) wantPending(t *testing.T, want money.NanoUSD) {
	t.Helper()
	if got := f.balance(t, "l:provider:collateral_refund_pending"); got != want {
		t.Errorf("owed to the card's owner: got %v, want %v", got, want)
	}
}

func TestARefundThatTheCardDoesNotTakeIsOwedAndMadeAgain(t *testing.T) {
	t.Parallel()
	f := newDesk(t).refunding(t)
	f.posts(t, ledger.CardClearing)
	f.wantPending(t, 0)
	failed := f.fails(t)
	f.wantPending(t, 15*usd)
	f.back(t, f.refund, card.Asked)
	f.worker.Look(t.Context()) // it waits for an hour
	if got := f.processor.refunds; got != 1 {
		t.Errorf("refunds at once: got %d, want 1", got)
	}
	f.again(t, card.ByCard)
	f.posts(t, ledger.CardClearing)
	for range 2 { // old news
		f.look(t, failed)
	}
	f.wantPending(t, 0)
	f.wantCollateral(t, 5*usd)
	f.wantAlarms(t)
	if got, want := fmt.Sprint(f.changes(t)), "[paid refund_ended refund_failed refund_ended]"; got != want {
		t.Errorf("changes: got %s, want %s", got, want)
	}
	f.sound(t)
}

func TestTheBankPaysWhatTheCardDidNotTakeThreeTimes(t *testing.T) {
	t.Parallel()
	f := newDesk(t).refunding(t)
	for range card.MaxAttempts - 1 {
		f.posts(t, ledger.CardClearing)
		f.fails(t)
		f.again(t, card.ByCard)
	}
	f.wantAlarms(t)
	f.posts(t, ledger.CardClearing)
	last := f.fails(t)
	f.wantAlarms(t, card.AlarmRefundFailed)
	f.again(t, card.FromBank)
	f.look(t, last)
	if got := f.processor.refunds; got != card.MaxAttempts {
		t.Errorf("refunds at the processor: got %d, want %d", got, card.MaxAttempts)
	}
	f.wantPending(t, 15*usd)
	f.posts(t, ledger.Bank)
	f.wantPending(t, 0)
	f.sound(t)
}

// The card does not take an attempt at once: the processor answers that it failed.
func TestAnAttemptThatFailsAtOnceIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	d.processor.failing = true
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}
	d.back(t, r, card.Asked)
	for range card.MaxAttempts {
		d.due(t)
		d.worker.Look(t.Context())
	}
	d.back(t, r, card.Asked)
	d.due(t)
	d.worker.Look(t.Context())
	d.back(t, r, card.FromBank)
	if got := d.processor.refunds; got != card.MaxAttempts {
		t.Errorf("refunds at the processor: got %d, want %d", got, card.MaxAttempts)
	}
	d.wantAlarms(t, card.AlarmRefundFailed)
	d.sound(t)
}

// What the books have not paid when the card does not take it they do not pay.
func TestAFailedAttemptIsNotPaidInTheBooks(t *testing.T) {
	t.Parallel()
	f := newDesk(t).refunding(t)
	late := must(t)(ledger.CollateralRefunded(f.fact(t), f.provider, ledger.CardClearing, 15*usd))
	f.fails(t)
	if _, err := f.store.Post(t.Context(), late); !errors.Is(err, ledger.ErrNoRefund) {
		t.Errorf("the payment of a failed attempt: got the error %v, want %v", err, ledger.ErrNoRefund)
	}
	next := must(t)(ledger.CollateralRefunded(f.fact(t), f.provider, ledger.CardClearing, 15*usd))
	if _, err := f.store.Post(t.Context(), next); !errors.Is(err, ledger.ErrNoRefund) {
		t.Errorf("the payment of an attempt under way: got the error %v, want %v", err, ledger.ErrNoRefund)
	}
	f.wantPending(t, 15*usd)
	f.again(t, card.ByCard)
	f.posts(t, ledger.CardClearing)
	f.wantPending(t, 0)
	f.sound(t)
}

func TestAnAttemptFailsOnceHoweverManyLook(t *testing.T) {
	t.Parallel()
	f := newDesk(t).refunding(t)
	f.posts(t, ledger.CardClearing)
	failed := f.processor.fails(f.refund.Key())
	var all sync.WaitGroup
	for range 6 {
		w := f.replica(f.cards)
		all.Go(func() {
			if err := w.LookAt(t.Context(), "sandbox", failed); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f.refund.Attempt++
	f.wantPending(t, 15*usd)
	f.again(t, card.ByCard)
	f.sound(t)
}

// The event is lost, and the list says what failed.
func TestAFailureOfWhichNoEventComesIsFound(t *testing.T) {
	t.Parallel()
	f := newDesk(t).refunding(t)
	made := f.processor.fails(f.refund.Key())
	f.processor.listed = []card.Object{made, {Kind: card.FailedObject, ID: made.ID}}
	f.refund.Attempt++
	f.again(t, card.Asked)
	f.again(t, card.ByCard)
	f.wantAlarms(t)
	f.sound(t)
}

// While a refund is made again, the card's owner disputes the payment: then it has the money.
func TestADisputeEndsARefundThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := newDesk(t).refunding(t)
	f.posts(t, ledger.CardClearing)
	f.fails(t)
	back := f.processor.dispute(f.checkout.SessionID, 2000)
	if err := f.worker.LookAt(t.Context(), "sandbox", back); !errors.Is(err, card.ErrRefundUnderWay) {
		t.Errorf("got the error %v, want %v", err, card.ErrRefundUnderWay)
	}
	f.again(t, card.Reversed)
	undone := ledger.Fact{ID: entryID(t), BusinessID: f.refund.ID.String()}
	post(t, f.env, must(t)(ledger.CollateralRefundUndo(undone, f.provider, 15*usd, ledger.CardBacking{})))
	f.look(t, back)
	f.wantPending(t, 0)
	f.wantCollateral(t, 0)
	f.wantAlarms(t)
	f.sound(t)
}

// What others refunded at the processor was taken from the collateral. If their refund fails, it
// is collateral again.
func TestARefundOfOthersThatFailsIsCollateralAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	r := card.Return{Object: card.Object{Kind: card.RefundObject, ID: "re_others"}, PaymentID: "pi_" + c.SessionID,
		Checkout: c.ID.String(), Amount: 700, Currency: "usd", State: card.ReturnMade}
	for _, stands := range []struct {
		state card.ReturnState
		want  money.NanoUSD
	}{{card.ReturnMade, 13 * usd}, {card.ReturnFailed, 20 * usd}} {
		r.State = stands.state
		d.processor.returns[r.ID] = r
		for range 2 {
			d.look(t, r.Object)
		}
		d.wantCollateral(t, stands.want)
	}
	never := r
	never.ID, never.PaymentID = "re_never", "pi_nobody"
	d.processor.returns[never.ID] = never
	d.look(t, never.Object)
	d.wantAlarms(t)
	d.sound(t)
}

// Somebody tells of failures that are not those of our attempts.
func TestAFailureThatIsNotOursMovesNothing(t *testing.T) {
	t.Parallel()
	f := newDesk(t).refunding(t)
	f.posts(t, ledger.CardClearing)
	id := f.refund.ID.String()
	for name, change := range map[string]func(*card.Return){
		"amount":   func(r *card.Return) { r.Amount-- },
		"currency": func(r *card.Return) { r.Currency = "jpy" },
		"livemode": func(r *card.Return) { r.Livemode = true },
		"next":     func(r *card.Return) { r.Key = id + "/2" },
		"zeroth":   func(r *card.Return) { r.Key = id + "/0" },
		"first":    func(r *card.Return) { r.Key = id + "/1" },
		"bank":     func(r *card.Return) { r.Key = id + "/4" },
		"no":       func(r *card.Return) { r.Key = id + "/" },
		"capital":  func(r *card.Return) { r.Key = "x" + id },
		"object":   func(*card.Return) {},
	} {
		r := f.processor.returns["re_"+id]
		r.ID, r.State = "re_"+name, card.ReturnFailed
		change(&r)
		f.processor.returns[r.ID] = r
		for range 2 {
			f.look(t, r.Object)
		}
	}
	f.wantPending(t, 0)
	f.back(t, f.refund, card.ByCard)
	got := column[string](t, f.env, `SELECT reason || ' ' || split_part(object, '_', 2) FROM card_alarm ORDER BY 1`)
	want := "[differs amount differs currency differs livemode foreign bank foreign capital foreign first foreign next " +
		"foreign no foreign zeroth]"
	if fmt.Sprint(got) != want {
		t.Errorf("alarms: got %q, want %q", got, want)
	}
	f.sound(t)
}
