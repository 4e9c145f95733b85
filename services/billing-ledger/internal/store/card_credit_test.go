package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/hold"
)

// buyer is a desk with a consumer who buys credit.
type buyer struct {
	*desk
	consumer
}

func newBuyer(t testing.TB) *buyer {
	t.Helper()
	d := newDesk(t)
	return &buyer{desk: d, consumer: d.consumer(t, 0)}
}

// order opens a checkout of $20 of credit.
func (b *buyer) order(t testing.TB) card.Checkout {
	t.Helper()
	c, err := b.checkouts.OpenTopUp(t.Context(), card.Checkout{ID: newCheckoutID(t), Account: b.account, Amount: 2000,
		ReturnURL: "https://market.example/"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// buy buys $20 of credit.
func (b *buyer) buy(t testing.TB) card.Checkout {
	t.Helper()
	c := b.order(t)
	b.processor.pay(c.SessionID)
	b.look(t, card.Object{Kind: card.SessionObject, ID: c.SessionID})
	return b.read(t, c.ID)
}

// spend has an open hold of whole dollars, which it returns.
func (b *buyer) spend(t testing.TB, dollars int64) hold.Reservation {
	t.Helper()
	r := b.reservation(t, b.consumer, dollars*100)
	b.admitOne(t, r, hold.Admitted)
	return r
}

// wantStanding wants a debt, and an account that is frozen for these causes.
func (b *buyer) wantStanding(t testing.TB, owed money.NanoUSD, causes ...account.Cause) {
	t.Helper()
	st, err := b.store.Standing(t.Context(), b.account)
	if err != nil {
		t.Fatal(err)
	}
	if st.Owed != owed {
		t.Errorf("owed: got %v, want %v", st.Owed, owed)
	}
	got := []account.Cause{}
	for _, f := range st.Freezes {
		got = append(got, f.Cause)
	}
	if fmt.Sprint(got) != fmt.Sprint(append([]account.Cause{}, causes...)) {
		t.Errorf("causes: got %v, want %v", got, causes)
	}
	a, err := b.accounts.Get(t.Context(), b.account)
	if err != nil {
		t.Fatal(err)
	}
	if frozen := a.State == account.Frozen; frozen != (len(causes) > 0) {
		t.Errorf("frozen: got %t, want %t", frozen, len(causes) > 0)
	}
}

// repay has every debt looked at.
func (b *buyer) repay(t testing.TB) {
	t.Helper()
	b.exec(t, `UPDATE card_debt SET due_at = now() WHERE due_at IS NOT NULL`)
	b.worker.Look(t.Context())
}

func TestCreditIsBoughtOnceAndItsFeeIsShownBefore(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.order(t)
	if c.Amount != 2000 || c.Fee != 91 {
		t.Errorf("the page: got %d and a fee of %d, want 2000 and 91", c.Amount, c.Fee)
	}
	b.look(t, card.Object{Kind: card.SessionObject, ID: c.SessionID})
	b.wantWallet(t, b.consumer, 0, 0)
	b.processor.pay(c.SessionID)
	var replicas sync.WaitGroup
	for range 4 {
		w := b.replica(b.cards)
		replicas.Go(func() {
			if err := w.LookAt(t.Context(), "sandbox", card.Object{Kind: card.SessionObject, ID: c.SessionID}); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	b.wantWallet(t, b.consumer, 20*usd, 0)
	fees := scan[int64](t, b.env, `SELECT sum(amount)::bigint FROM posting WHERE account_kind = 'r:card_fee'`)
	if fees != 91*int64(cent) {
		t.Errorf("fees: got %d, want %d", fees, 91*int64(cent))
	}
	if got := b.read(t, c.ID).State; got != card.Paid {
		t.Errorf("the checkout: got %s, want %s", got, card.Paid)
	}
	if n := scan[int](t, b.env, `SELECT count(*) FROM card_change`); n != 0 {
		t.Errorf("changes that settlement hears of: got %d, want 0", n)
	}
	b.wantAlarms(t)
	b.sound(t)
}

func TestASessionThatDiffersGivesNobodyCredit(t *testing.T) {
	t.Parallel()
	other := newCheckoutID(t).String()
	for name, change := range map[string]func(*card.Session){
		"amount":   func(s *card.Session) { s.Total++ },
		"charge":   func(s *card.Session) { s.Charge.Total-- },
		"currency": func(s *card.Session) { s.Currency = "eur" },
		"customer": func(s *card.Session) { s.Account = other },
		"nobody":   func(s *card.Session) { s.Account = "" },
		"provider": func(s *card.Session) { s.Provider = other },
		"purpose":  func(s *card.Session) { s.Purpose = "collateral" },
		"a plan":   func(s *card.Session) { s.Plan = "pro" },
		"livemode": func(s *card.Session) { s.Livemode = true },
		"cost":     func(s *card.Session) { s.Charge.Cost = s.Total + 1 },
		"no id":    func(s *card.Session) { s.Charge.PaymentID = "a b" },
		"checkout": func(s *card.Session) { s.Checkout = other },
		"itself":   func(s *card.Session) { s.ID = "cs_other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuyer(t)
			c := b.order(t)
			b.processor.pay(c.SessionID)
			b.processor.rewrite(c.SessionID, change)
			for range 2 {
				b.look(t, card.Object{Kind: card.SessionObject, ID: c.SessionID})
			}
			b.wantWallet(t, b.consumer, 0, 0)
			if n := scan[int](t, b.env, `SELECT count(*) FROM card_alarm`); n != 1 {
				t.Errorf("alarms: got %d, want 1", n)
			}
			b.sound(t)
		})
	}
}

// One payment is said to be that of two checkouts of credit.
func TestOnePaymentBuysNoCreditTwice(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	first, second := b.buy(t), b.order(t)
	b.processor.pay(second.SessionID)
	b.processor.rewrite(second.SessionID, func(s *card.Session) { s.Charge.PaymentID = "pi_" + first.SessionID })
	b.look(t, card.Object{Kind: card.SessionObject, ID: second.SessionID})
	b.wantWallet(t, b.consumer, 20*usd, 0)
	b.wantAlarms(t, card.AlarmPaidTwice)
	b.sound(t)
}

func TestAnAccountHasAtMostSoManyOpenCheckouts(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	for range card.MaxOpen {
		b.order(t)
	}
	_, err := b.checkouts.OpenTopUp(t.Context(), card.Checkout{ID: newCheckoutID(t), Account: b.account, Amount: 2000,
		ReturnURL: "https://market.example/"})
	if !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("one more: got the error %v, want the reason %s", err, fault.RateLimitExceeded)
	}
	for name, amount := range map[string]card.Cents{
		"too little": 499, "too much": 1_000_001, "nothing": 0, "below": -500,
	} {
		_, err := b.checkouts.OpenTopUp(t.Context(), card.Checkout{ID: newCheckoutID(t), Account: b.account, Amount: amount,
			ReturnURL: "https://market.example/"})
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.InvalidValue)
		}
	}
}

// Of $20.91, $5 is unspent. The hold of $15 is released later, and somebody gives $1.
func TestAChargebackOfSpentCreditIsADebtThatIsRepaid(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	held := b.spend(t, 15)
	dispute := b.processor.dispute(c.SessionID, c.Total())
	b.look(t, dispute)
	b.wantWallet(t, b.consumer, 15*usd, 15*usd)
	b.wantStanding(t, 1591*cent, account.ByDebt, account.ByDispute)
	v := b.admit(t, b.reservation(t, b.consumer, 1))[0]
	if got := strings.Join(v.FrozenBecause, " "); v.Outcome != hold.AccountFrozen || !strings.Contains(got, "disputed") ||
		!strings.Contains(got, "owes") {
		t.Errorf("a request: got %s because %q, want it refused, and both causes", v.Outcome, got)
	}
	b.look(t, dispute) // twice
	b.repay(t)
	b.wantStanding(t, 1591*cent, account.ByDebt, account.ByDispute)

	b.release(t, held.Request)
	b.repay(t)
	b.wantWallet(t, b.consumer, 0, 0)
	b.wantStanding(t, 91*cent, account.ByDebt, account.ByDispute)
	if _, _, err := b.accounts.Grant(t.Context(), b.account, usd, "gift", "gift"); err != nil {
		t.Fatal(err)
	}
	b.repay(t)
	b.wantWallet(t, b.consumer, 9*cent, 0)
	b.wantStanding(t, 0, account.ByDispute)

	b.processor.lose(dispute)
	b.look(t, dispute)
	b.wantStanding(t, 0)
	b.spendCent(t)
	b.wantAlarms(t)
	b.sound(t)
}

// spendCent wants a request of a cent to be admitted.
func (b *buyer) spendCent(t testing.TB) {
	t.Helper()
	b.admitOne(t, b.reservation(t, b.consumer, 1), hold.Admitted)
}

func TestADisputeThatIsWonGivesCreditBackAndLiftsTheFreeze(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	b.spend(t, 15)
	dispute := b.processor.dispute(c.SessionID, c.Total())
	b.look(t, dispute)
	b.processor.win(dispute)
	for range 2 {
		b.look(t, dispute)
	}
	// The fee was taken by the dispute, and is given back as a part of it.
	b.wantWallet(t, b.consumer, 20*usd, 15*usd)
	b.wantStanding(t, 0)
	b.sound(t)
}

func TestADebtIsLostAfterNinetyDaysAndAnOperatorLiftsThat(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	held := b.spend(t, 15)
	dispute := b.processor.dispute(c.SessionID, c.Total())
	b.look(t, dispute)
	b.exec(t, `UPDATE card_debt SET at = at - interval '90 days'`)
	b.exec(t, `UPDATE account_freeze SET at = at - interval '90 days'`)
	b.repay(t)
	b.wantStanding(t, 0, account.ByLoss)
	b.sound(t)
	if _, err := b.accounts.SetState(t.Context(), b.account, account.Open, "forgiven"); err != nil {
		t.Fatal(err)
	}
	b.wantStanding(t, 0)
	// The dispute is won after all: what was lost is no loss, and the rest is credit.
	b.processor.win(dispute)
	b.look(t, dispute)
	b.release(t, held.Request)
	b.wantWallet(t, b.consumer, 20*usd, 0)
	lost := scan[int64](t, b.env, `SELECT sum(amount)::bigint FROM posting WHERE account_kind = 'e:chargeback'`)
	if lost != 0 {
		t.Errorf("chargebacks: got %d, want 0", lost)
	}
	b.sound(t)
}

func TestAnAccountIsFrozenUntilNoCauseIsLeft(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	c := b.buy(t)
	dispute := b.processor.dispute(c.SessionID, 500)
	b.look(t, dispute)
	for _, state := range []account.State{account.Frozen, account.Frozen, account.Open} {
		a, err := b.accounts.SetState(t.Context(), b.account, state, "memo")
		if err != nil {
			t.Fatal(err)
		}
		if a.State != account.Frozen {
			t.Errorf("the account after an operator's %s: got %s, want %s", state, a.State, account.Frozen)
		}
	}
	b.wantStanding(t, 0, account.ByDispute)
	if n := scan[int](t, b.env, `SELECT count(*) FROM account_state_change`); n != 1 {
		t.Errorf("changes of the state: got %d, want 1", n)
	}
	b.processor.lose(dispute)
	b.look(t, dispute)
	b.wantStanding(t, 0)
	b.wantWallet(t, b.consumer, 15*usd, 0)
	b.sound(t)
}

func TestVerifyFindsWhatIsWrongWithCredit(t *testing.T) {
	t.Parallel()
	const (
		paid   = "credit by card is what cards were charged for it"
		owed   = "debts of card payments are what is owed in the books"
		frozen = "an account is frozen while there is a cause, and for each debt"
	)
	for tamper, name := range map[string]string{
		`UPDATE checkout SET cents = cents + 1, fee_cents = fee_cents - 1`:                      paid,
		`UPDATE checkout SET account_id = (SELECT id FROM account ORDER BY created_at LIMIT 1)`: paid,
		`UPDATE card_debt SET paid = 1`:                                                         owed,
		`UPDATE card_debt SET lost = owed, due_at = NULL`:                                       owed,
		`UPDATE account SET state = 'open'`:                                                     frozen,
		`UPDATE account_freeze SET lifted_at = now() WHERE cause = 'debt'`:                      frozen,
	} {
		t.Run(tamper, func(t *testing.T) {
			t.Parallel()
			b := newBuyer(t)
			first := b.env.consumer(t, 0)
			b.exec(t, `UPDATE account SET created_at = created_at - interval '1 day' WHERE id = $1`, first.account)
			c := b.buy(t)
			b.spend(t, 15)
			b.look(t, b.processor.dispute(c.SessionID, c.Total()))
			b.sound(t)
			b.exec(t, tamper)
			for _, i := range b.audited(t).Invariants {
				if i.Name == name && i.Drift == 0 {
					t.Errorf("after %s: got no drift of %q, want some", tamper, name)
				}
			}
		})
	}
}
