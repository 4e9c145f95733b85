package store_test

import (
	"fmt"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/hold"
)

// giveBack asks for a refund of credit, and wants a state.
func (b *buyer) giveBack(t testing.TB, r card.Refund, want card.RefundState) {
	t.Helper()
	r.Purpose, r.By = card.TopUp, "operator:ann"
	got, err := b.refunds.Ask(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != want {
		t.Errorf("the refund: got %s, want %s", got.State, want)
	}
}

func TestARefundOfCreditTakesTheCredit(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 700}
	for range 2 {
		b.giveBack(t, r, card.ByCard)
	}
	b.wantWallet(t, b.consumer, 13*usd, 0)
	if b.processor.refunds != 1 {
		t.Errorf("refunds at the processor: got %d, want 1", b.processor.refunds)
	}
	b.spend(t, 10)
	for name, amount := range map[string]card.Cents{"what is held": 301, "the fee": 1301, "more than was paid": 2092} {
		_, err := b.refunds.Ask(t.Context(), card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: amount,
			Purpose: card.TopUp, By: "x"})
		if !fault.Is(err, fault.TransitionNotAllowed) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.TransitionNotAllowed)
		}
	}
	// Settlement asks for refunds of collateral only.
	if _, err := b.refunds.Ask(t.Context(), card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 1}); !fault.Is(err,
		fault.CheckoutNotFound) {
		t.Errorf("as collateral: got the error %v, want the reason %s", err, fault.CheckoutNotFound)
	}
	b.giveBack(t, card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 300}, card.ByCard)
	b.wantWallet(t, b.consumer, 10*usd, 10*usd)
	b.wantAlarms(t)
	b.sound(t)
}

func TestARefundThatNoCardTakesIsCreditAgain(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	b.processor.refused = true
	b.giveBack(t, card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 700}, card.Reversed)
	b.wantWallet(t, b.consumer, 20*usd, 0)
	b.processor.refused, b.processor.failing = false, true
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 700}
	b.giveBack(t, r, card.Asked)
	b.wantWallet(t, b.consumer, 13*usd, 0)
	for range card.MaxAttempts + 1 {
		b.due(t)
		b.worker.Look(t.Context())
	}
	b.giveBack(t, r, card.Reversed)
	b.wantWallet(t, b.consumer, 20*usd, 0)
	b.wantAlarms(t, card.AlarmRefundFailed)
	b.sound(t)
}

// Whoever comes first has the credit, and nobody has it twice.
func TestARefundAndASpendHaveTheSameCreditOnce(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	var racing sync.WaitGroup
	for range 4 {
		claim := b.reservation(t, b.consumer, 1500)
		racing.Go(func() {
			if _, err := b.store.Admit(t.Context(), []hold.Reservation{claim}); err != nil {
				t.Error(err)
			}
		})
		r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 1500, Purpose: card.TopUp, By: "x"}
		racing.Go(func() {
			if _, err := b.refunds.Ask(t.Context(), r); err != nil && !fault.Is(err, fault.TransitionNotAllowed) {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	posted, held := b.wallet(t, b.consumer)
	if once := posted == 20*usd && held == 15*usd || posted == 5*usd && held == 0; !once {
		t.Errorf("the wallet: got %v with %v held, want $15 held or refunded, once", posted, held)
	}
	b.sound(t)
}

// The card's owner disputes what was refunded too.
func TestWhatIsRefundedAndDisputedIsOwed(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	b.giveBack(t, card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 2000}, card.ByCard)
	b.look(t, b.processor.dispute(c.SessionID, c.Total()))
	b.wantStanding(t, 2091*cent, "debt", "dispute")
	b.wantAlarms(t, card.AlarmExceeds)
	b.sound(t)
}

// A process dies before or after each thing that is committed, and the end is the same.
func TestACrashWithCreditChangesNothing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"", "Open", "SetSession", "Pay", "AskRefund", "EndRefund", "FailRefund", "Reverse",
		"Win", "RepayDebt", "Lose"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s after=%t", method, after), func(t *testing.T) {
				t.Parallel()
				b := newBuyer(t)
				breaking := &brittle{Cards: b.cards, fails: method, after: after}
				b.open(breaking)
				b.tellOfCredit(t)
				if breaking.broke != (method != "") {
					t.Errorf("broke: got %t, want %t", breaking.broke, method != "")
				}
				b.wantWallet(t, b.consumer, 1300*cent-91*cent-200*cent, 0)
				b.wantStanding(t, 0)
				b.wantAlarms(t)
				b.sound(t)
			})
		}
	}
}

// tellOfCredit buys $20, gives $7 back at the second attempt, is disputed over all that is left and
// wins that, and loses a dispute of $2 while everything is spent. Each step is repeated until it succeeds.
func (b *buyer) tellOfCredit(t *testing.T) {
	t.Helper()
	asked := card.Checkout{ID: newCheckoutID(t), Account: b.account, Amount: 2000, ReturnURL: "https://market.example/"}
	var c card.Checkout
	tryTwice(t, func() (err error) { c, err = b.checkouts.OpenTopUp(t.Context(), asked); return err })
	b.processor.pay(c.SessionID)
	tryTwice(t, func() error { return b.lookAt(t, card.Object{Kind: card.SessionObject, ID: c.SessionID}) })
	r := card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 700, Purpose: card.TopUp, By: "x"}
	tryTwice(t, func() error { _, err := b.refunds.Ask(t.Context(), r); return err })
	b.settleRefunds(t)
	failed := b.processor.fails(r.ID.String())
	tryTwice(t, func() error { return b.lookAt(t, failed) })
	b.settleRefunds(t)

	won := b.processor.dispute(c.SessionID, 1300)
	tryTwice(t, func() error { return b.lookAt(t, won) })
	b.processor.win(won)
	tryTwice(t, func() error { return b.lookAt(t, won) })

	held := b.spend(t, 13)
	lost := b.processor.dispute(c.SessionID, 291)
	tryTwice(t, func() error { return b.lookAt(t, lost) })
	b.release(t, held.Request)
	b.repay(t)
	b.repay(t)
	b.processor.lose(lost)
	tryTwice(t, func() error { return b.lookAt(t, lost) })
}

func (b *buyer) lookAt(t *testing.T, o card.Object) error {
	return b.worker.LookAt(t.Context(), "sandbox", o)
}

// settleRefunds looks at refunds until they have ended.
func (b *buyer) settleRefunds(t *testing.T) {
	t.Helper()
	for range 3 {
		b.exec(t, `UPDATE card_refund SET due_at = now() WHERE due_at IS NOT NULL`)
		b.worker.Look(t.Context())
	}
}

// tryTwice repeats a step whose process dies once.
func tryTwice(t *testing.T, do func() error) {
	t.Helper()
	if err := do(); err == nil {
		return
	}
	if err := do(); err != nil {
		t.Fatal(err)
	}
}
