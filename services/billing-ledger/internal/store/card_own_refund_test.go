package store_test

import (
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// own is what the consumer asks for of a payment, under a key.
func (b *buyer) own(c card.Checkout, amount card.Cents, key string) card.Refund {
	return card.Refund{ID: card.RefundOf(b.account, true, key), Checkout: c.ID, Amount: amount, Account: b.account,
		Own: true, By: card.ByConsumer}
}

// wantRefused wants an own refund to be refused for a reason.
func (b *buyer) wantRefused(t *testing.T, what string, r card.Refund, reason fault.Reason) {
	t.Helper()
	if got, err := b.refunds.AskTopUp(t.Context(), r); !fault.Is(err, reason) {
		t.Errorf("%s: got %v and the error %v, want the reason %s", what, got.Amount, err, reason)
	}
}

// wantBack wants an own refund to be made of an amount.
func (b *buyer) wantBack(t *testing.T, r card.Refund, want card.Cents) {
	t.Helper()
	got, err := b.refunds.AskTopUp(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Amount != want || got.State != card.ByCard {
		t.Errorf("the refund: got %d %s, want %d %s", got.Amount, got.State, want, card.ByCard)
	}
}

// use has the account charged whole dollars for a request.
func (b *buyer) use(t *testing.T, dollars int64) {
	t.Helper()
	b.settle(t, usage.Settled, b.served(t, b.spend(t, dollars), dollars*100))
}

func TestAConsumerHasItsUnspentCreditBack(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	first := b.buy(t)
	b.use(t, 5)
	second := b.buy(t)
	b.use(t, 4)
	b.wantBack(t, b.own(second, 0, "k1"), 1600)
	b.wantBack(t, b.own(second, 0, "k1"), 1600) // a repeat
	b.wantRefused(t, "more than is unspent", b.own(first, 1501, "k2"), fault.TransitionNotAllowed)
	b.wantBack(t, b.own(first, 1500, "k3"), 1500)
	b.wantWallet(t, b.consumer, 0, 0)
	b.wantRefused(t, "nothing", b.own(first, 0, "k4"), fault.TransitionNotAllowed)
	b.wantRefused(t, "another amount under the key", b.own(first, 1, "k3"), fault.IdempotencyKeyReused)
	b.wantAlarms(t)
	b.sound(t)
}

// Goodwill buys nothing back: what is charged spends what was bought first.
func TestARefundPaysNoCreditThatWasGiven(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	post(t, b.env, ledger.Grant(entryID(t), b.account, 20*usd, "goodwill", ""))
	c := b.buy(t)
	b.use(t, 15)
	b.wantRefused(t, "spent credit", b.own(c, 501, "k1"), fault.TransitionNotAllowed)
	b.wantBack(t, b.own(c, 0, "k2"), 500)
	b.wantWallet(t, b.consumer, 20*usd, 0)
	b.sound(t)
}

func TestAnotherConsumersPaymentIsNotFound(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	thief := &buyer{desk: b.desk, consumer: b.desk.consumer(t, 20*usd)}
	thief.wantRefused(t, "another's payment", thief.own(c, 500, "k1"), fault.CheckoutNotFound)
	stolen := thief.own(c, 500, "k1")
	stolen.Own, stolen.Note = false, "by an operator"
	b.wantRefused(t, "another's payment, by an operator", stolen, fault.CheckoutNotFound)
	b.wantWallet(t, b.consumer, 20*usd, 0)
	b.wantWallet(t, thief.consumer, 20*usd, 0)
}

func TestAnOwnRefundIsOfLatePaymentsAndOpenAccounts(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	for _, state := range []account.State{account.Frozen, account.Open} {
		if _, err := b.accounts.SetState(t.Context(), b.account, state, "a test"); err != nil {
			t.Fatal(err)
		}
		if state == account.Frozen {
			b.wantRefused(t, "a frozen account", b.own(c, 100, "k1"), fault.TransitionNotAllowed)
		}
	}
	for n := range card.MaxOwnRefunds {
		b.wantBack(t, b.own(c, 1, "n"+string(rune('a'+n))), 1)
	}
	b.wantRefused(t, "one refund more", b.own(c, 1, "k2"), fault.RateLimitExceeded)
	c = b.buy(t)
	b.exec(t, `UPDATE card_payment SET at = now() - interval '14 days' WHERE checkout_id = $1`, c.ID)
	b.wantRefused(t, "an old payment", b.own(c, 100, "k3"), fault.TransitionNotAllowed)
	late := b.own(c, 100, "k4")
	late.Own, late.Note, late.By = false, "asked by letter", "operator:ann"
	b.wantBack(t, late, 100)
	detail := scan[string](t, b.env, `SELECT detail ->> 'note' FROM operator_action WHERE action = 'refund_topup'`)
	if detail != late.Note {
		t.Errorf("the action: got the note %q, want %q", detail, late.Note)
	}
	list, more, err := b.refunds.OfAccount(t.Context(), b.account, card.RefundID{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !more || list[0].ID != late.ID || list[0].Note != late.Note || list[0].EndedAt.IsZero() {
		t.Errorf("the list: got %+v and more=%t, want the refund %s, and more", list, more, late.ID)
	}
	rest, more, err := b.refunds.OfAccount(t.Context(), b.account, late.ID, 100)
	if err != nil {
		t.Fatal(err)
	}
	if more || len(rest) != card.MaxOwnRefunds {
		t.Errorf("the rest: got %d and more=%t, want %d, and no more", len(rest), more, card.MaxOwnRefunds)
	}
}

// Two tabs ask at once, under one key and under two: nothing goes back twice.
func TestTwoTabsHaveOneRefund(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	var tabs sync.WaitGroup
	for _, key := range []string{"same", "same", "same", "other"} {
		tabs.Go(func() {
			_, err := b.refunds.AskTopUp(t.Context(), b.own(c, 1500, key))
			if err != nil && !fault.Is(err, fault.TransitionNotAllowed) {
				t.Error(err)
			}
		})
	}
	tabs.Wait()
	b.settleRefunds(t)
	b.wantWallet(t, b.consumer, 5*usd, 0)
	if b.processor.refunds != 1 {
		t.Errorf("refunds at the processor: got %d, want 1", b.processor.refunds)
	}
	b.sound(t)
}

// The card's owner takes back what the consumer has had back, and asks again.
func TestARefundIsFollowedByADisputeOfTheSamePayment(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	b.wantBack(t, b.own(c, 1500, "k1"), 1500)
	disputed := b.processor.dispute(c.SessionID, c.Total())
	b.look(t, disputed)
	b.wantStanding(t, 2091*cent-500*cent, "debt", "dispute")
	b.wantAlarms(t, card.AlarmExceeds)
	b.buy(t) // pays the debt
	b.repay(t)
	b.wantStanding(t, 0, "dispute")
	b.processor.lose(disputed)
	b.look(t, disputed)
	b.wantStanding(t, 0)
	later := b.buy(t)
	b.wantRefused(t, "after a dispute", b.own(later, 100, "k2"), fault.TransitionNotAllowed)
	b.sound(t)
}

// Credit by card is that of a payment: the database takes no entry without one, nor one of another
// amount, account or purpose.
func TestNoCreditByCardIsPostedWithoutItsPayment(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	other := b.desk.consumer(t, 0)
	unpaid := b.order(t)
	collateral := b.paid(t)
	forge := func(kind ledger.EntryKind, business string, of consumer, amount int64) error {
		id := entryID(t)
		tx, err := b.owner.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		if _, err := tx.Exec(t.Context(), `INSERT INTO entry (id, kind, business_id) VALUES ($1, $2, $3)`, id, string(kind),
			business); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned,
				owner_id, amount) VALUES ($1, 1, $2, 'a:card_clearing', false, NULL, -$4::bigint),
				($1, 2, $2, 'l:consumer:available', true, $3, $4)`, id, string(kind), of.account, amount); err != nil {
			t.Fatal(err)
		}
		return tx.Commit(t.Context())
	}
	for name, attack := range map[string]func() error{
		"without a checkout": func() error {
			return forge(ledger.CardTopUpPaid, newCheckoutID(t).String(), b.consumer, 20*int64(usd))
		},
		"of a page that nobody paid": func() error {
			return forge(ledger.CardTopUpPaid, unpaid.ID.String(), b.consumer, 20*int64(usd))
		},
		"of collateral": func() error {
			return forge(ledger.CardTopUpPaid, collateral.ID.String(), b.consumer, 20*int64(usd))
		},
		"for another":         func() error { return forge(ledger.CardTopUpPaid, c.ID.String()+" ", other, 20*int64(usd)) },
		"of a win of nothing": func() error { return forge(ledger.CardDisputeWon, "dp", b.consumer, 20*int64(usd)) },
		"of a reversal of nothing": func() error {
			return forge(ledger.CardReversed, "dp", b.consumer, -int64(usd))
		},
	} {
		if err := attack(); !pg.IsCheck(err, "card_credit_is_paid") {
			t.Errorf("%s: got the error %v, want a violation of card_credit_is_paid", name, err)
		}
	}
	b.wantWallet(t, b.consumer, 20*usd, 0)
}
