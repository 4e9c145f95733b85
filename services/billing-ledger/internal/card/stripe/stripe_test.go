package stripe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/card/stripe/stripetest"
)

func start(t *testing.T) (*stripetest.Server, *Processor) {
	t.Helper()
	server := stripetest.New(t)
	p, err := New(stripetest.Key, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return server, p
}

// order asks for a page of $20 of credit, or of a plan of $6.
func order(purpose card.Purpose) card.Order {
	c := card.Checkout{ID: card.CheckoutOf(ids.AccountID{1}, purpose, "key"), Purpose: purpose, Account: ids.AccountID{1},
		Amount: 2000, Fee: 91, ReturnURL: "https://market.example/", Expires: time.Now().Add(time.Hour).Truncate(time.Second)}
	if purpose == card.PlanPurpose {
		c.Plan, c.Amount, c.Fee = "pro", 600, 0
	}
	return card.Order{Checkout: c, Lifetime: time.Hour, Description: "Credit"}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestAPageIsMadeOnceAndSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	server, p := start(t)
	o := order(card.TopUp)
	server.Lose = true
	if _, err := p.CreateSession(t.Context(), o); err == nil {
		t.Error("an answer that was lost: got no error, want one")
	}
	first := must(p.CreateSession(t.Context(), o))(t)
	second := must(p.CreateSession(t.Context(), o))(t)
	if first.ID != second.ID {
		t.Errorf("a repeat: got %s, want %s", second.ID, first.ID)
	}
	want := card.Session{ID: first.ID, URL: first.URL, Checkout: o.Checkout.ID.String(), Purpose: "topup",
		Account: o.Checkout.Account.String(), Total: 2091, Currency: "usd", State: card.SessionOpen,
		Expires: o.Checkout.Expires.UTC()}
	if first != want {
		t.Errorf("the page: got %+v, want %+v", first, want)
	}
	payment := server.Pay(first.ID, "card_1")
	paid := must(p.FetchSession(t.Context(), first.ID))(t)
	charge := card.Charge{PaymentID: payment, CostID: paid.Charge.CostID, Total: 2091, Cost: 91, Fingerprint: "card_1"}
	if paid.State != card.SessionPaid || paid.Charge != charge || paid.Charge.CostID == "" {
		t.Errorf("the payment: got %s %+v, want it paid with %+v", paid.State, paid.Charge, charge)
	}
	if _, err := p.FetchSession(t.Context(), "cs_odd"); !errors.Is(err, card.ErrNoObject) {
		t.Errorf("a page that is not there: got the error %v, want %v", err, card.ErrNoObject)
	}
}

func TestAPaymentWithoutItsBalanceTransactionIsNotPaidYet(t *testing.T) {
	t.Parallel()
	server, p := start(t)
	s := must(p.CreateSession(t.Context(), order(card.TopUp)))(t)
	server.Pay(s.ID, "card_1")
	for name, change := range map[string]func(map[string]any){
		"unpaid": func(o map[string]any) { o["payment_status"] = "unpaid" },
		"open":   func(o map[string]any) { o["payment_status"], o["status"] = "paid", "open" },
		"setup":  func(o map[string]any) { o["status"], o["mode"] = "complete", "setup" },
		"nobody": func(o map[string]any) { o["mode"], o["payment_intent"] = "payment", nil },
	} {
		server.Change(s.ID, change)
		if got := must(p.FetchSession(t.Context(), s.ID))(t).State; got != card.SessionOpen {
			t.Errorf("%s: got %s, want %s", name, got, card.SessionOpen)
		}
	}
}

func TestARefundIsMadeOnceForAKeyForEver(t *testing.T) {
	t.Parallel()
	server, p := start(t)
	o := order(card.TopUp)
	s := must(p.CreateSession(t.Context(), o))(t)
	payment := server.Pay(s.ID, "card_1")
	server.Lose = true
	if _, err := p.Refund(t.Context(), "r/2", payment, 700); err == nil {
		t.Error("an answer that was lost: got no error, want one")
	}
	made := must(p.Refund(t.Context(), "r/2", payment, 700))(t)
	want := card.Return{Object: card.Object{Kind: card.RefundObject, ID: made.ID}, PaymentID: payment,
		Checkout: o.Checkout.ID.String(), Key: "r/2", Amount: 700, Currency: "usd", State: card.ReturnMade}
	if made != want {
		t.Errorf("the refund: got %+v, want %+v", made, want)
	}
	if got := must(p.FetchReturn(t.Context(), made.Object))(t); got != want {
		t.Errorf("the refund as it is fetched: got %+v, want %+v", got, want)
	}
	if got := must(p.FetchBalance(t.Context(), payment))(t); got != (card.Balance{Total: 2091, Returned: 700}) {
		t.Errorf("the balance: got %+v, want 700 of 2091 returned", got)
	}
	if _, err := p.Refund(t.Context(), "more", payment, 1392); !errors.Is(err, card.ErrRefused) {
		t.Errorf("more than is left: got the error %v, want %v", err, card.ErrRefused)
	}
	server.FailRefund(made.ID)
	if got := must(p.Refund(t.Context(), "r/2", payment, 700))(t); got.State != card.ReturnFailed || got.ID != made.ID {
		t.Errorf("a repeat: got %+v, want the same refund, failed", got)
	}
	if got := must(p.FetchBalance(t.Context(), payment))(t).Returned; got != 0 {
		t.Errorf("returned: got %d, want 0", got)
	}
}

func TestADisputeCountsWhileItHasTheMoney(t *testing.T) {
	t.Parallel()
	server, p := start(t)
	o := order(card.TopUp)
	s := must(p.CreateSession(t.Context(), o))(t)
	payment := server.Pay(s.ID, "card_1")
	id := server.Dispute(payment, 2091)
	want := card.Return{Object: card.Object{Kind: card.DisputeObject, ID: id}, PaymentID: payment,
		Checkout: o.Checkout.ID.String(), Amount: 2091, Currency: "usd", State: card.ReturnMade}
	if got := must(p.FetchReturn(t.Context(), want.Object))(t); got != want {
		t.Errorf("the dispute: got %+v, want %+v", got, want)
	}
	server.Change(id, func(o map[string]any) { o["balance_transactions"] = nil })
	if got := must(p.FetchReturn(t.Context(), want.Object))(t).State; got != card.ReturnPending {
		t.Errorf("an inquiry: got %s, want %s", got, card.ReturnPending)
	}
	lost, won := server.Dispute(payment, 100), server.Dispute(payment, 200)
	server.Close(lost)
	server.Win(won)
	for id, state := range map[string]card.ReturnState{lost: card.ReturnLost, won: card.ReturnWon} {
		o := card.Object{Kind: card.DisputeObject, ID: id}
		if got := must(p.FetchReturn(t.Context(), o))(t).State; got != state {
			t.Errorf("%s: got %s, want %s", id, got, state)
		}
	}
	if got := must(p.FetchBalance(t.Context(), payment))(t).Returned; got != 100 {
		t.Errorf("returned: got %d, want 100", got)
	}
}

func TestASubscriptionIsPaidByInvoicesAndEnds(t *testing.T) {
	t.Parallel()
	server, p := start(t)
	o := order(card.PlanPurpose)
	s := must(p.CreateSession(t.Context(), o))(t)
	id := server.Pay(s.ID, "card_1")
	if got := must(p.FetchSession(t.Context(), s.ID))(t); got.State != card.SessionPaid || got.Subscription != id {
		t.Errorf("the page: got %s with %q, want it paid with %q", got.State, got.Subscription, id)
	}
	second := server.Renew(id)
	sub := must(p.FetchSubscription(t.Context(), id))(t)
	if sub.Checkout != o.Checkout.ID.String() || sub.Plan != "pro" || sub.LatestInvoice != second ||
		sub.State != card.SubscriptionActive {
		t.Errorf("the subscription: got %+v, want it active with %s", sub, second)
	}
	in := must(p.FetchInvoice(t.Context(), second))(t)
	if in.State != card.InvoicePaid || in.Total != 600 || in.Charge.Total != 600 || in.Subscription != id ||
		!in.PeriodEnd.Equal(sub.PeriodEnd) || in.Charge.Fingerprint != "card_1" {
		t.Errorf("the invoice: got %+v, want $6 of %s, paid until %v", in, id, sub.PeriodEnd)
	}
	list, next, err := p.ListInvoices(t.Context(), id, "")
	if err != nil || len(list) != 2 || next != "" || list[0] != in {
		t.Errorf("the invoices: got %v, next %q, error %v, want 2 and the last first", list, next, err)
	}
	// A payment of a subscription has no metadata of its own.
	dispute := server.Dispute(in.Charge.PaymentID, 600)
	if got := must(p.FetchReturn(t.Context(), card.Object{Kind: card.DisputeObject, ID: dispute}))(t); got.Checkout !=
		o.Checkout.ID.String() {
		t.Errorf("the dispute's checkout: got %q, want %q", got.Checkout, o.Checkout.ID)
	}
	if err := p.EndAtPeriodEnd(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	if !must(p.FetchSubscription(t.Context(), id))(t).EndsAtPeriodEnd {
		t.Error("ends at its period's end: got false, want true")
	}
	for range 2 {
		if err := p.EndNow(t.Context(), id); err != nil {
			t.Errorf("an end: got the error %v, want none", err)
		}
	}
	if got := must(p.FetchSubscription(t.Context(), id))(t).State; got != card.SubscriptionEnded {
		t.Errorf("the state: got %s, want %s", got, card.SubscriptionEnded)
	}
	if err := p.EndNow(t.Context(), "sub_odd"); !errors.Is(err, card.ErrNoObject) {
		t.Errorf("no subscription: got the error %v, want %v", err, card.ErrNoObject)
	}
}

func TestAListHasAllThatWasMadeInPages(t *testing.T) {
	t.Parallel()
	server, p := start(t)
	s := must(p.CreateSession(t.Context(), order(card.TopUp)))(t)
	payment := server.Pay(s.ID, "card_1")
	for range 120 {
		server.Dispute(payment, 1)
	}
	var all []card.Object
	cursor, pages := "", 0
	for pages == 0 || cursor != "" {
		list, next, err := p.List(t.Context(), time.Now().Add(-time.Minute), cursor)
		if err != nil {
			t.Fatal(err)
		}
		all, cursor, pages = append(all, list...), next, pages+1
	}
	if len(all) != 121 || pages != 2 || all[120] != (card.Object{Kind: card.SessionObject, ID: s.ID}) {
		t.Errorf("got %d objects in %d pages, the first made %v, want 121 in 2, and %s",
			len(all), pages, all[len(all)-1], s.ID)
	}
	if list, _, err := p.List(t.Context(), time.Now().Add(time.Minute), ""); err != nil || len(list) != 0 {
		t.Errorf("since later: got %v and the error %v, want nothing", list, err)
	}
}

func TestErrorsNeverHaveKeysOrCards(t *testing.T) {
	t.Parallel()
	server, p := start(t)
	other, err := New("rk_test_of_somebody_else", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, odd := p.Refund(t.Context(), "k", "pi_odd", 5)
	_, unauthorized := other.FetchSession(t.Context(), "cs_1")
	_, left := p.FetchSession(ended, "cs_secret_of_a_page")
	for name, err := range map[string]error{"refused": odd, "unauthorized": unauthorized, "left": left} {
		if err == nil {
			t.Fatalf("%s: got no error, want one", name)
		}
		for _, secret := range []string{stripetest.Key, "somebody", "4242", "cs_secret"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: got %q, want it without %q", name, err, secret)
			}
		}
	}
}

func TestAKeyOfEverythingIsRefused(t *testing.T) {
	t.Parallel()
	for key, ok := range map[string]bool{"rk_live_0123456789": true, "rk_test_0123456789": true,
		"sk_test_0123456789": true, "sk_live_0123456789": false, "": false, "rk_live_": false, "whsec_0123456789": false} {
		if err := CheckKey(key); (err == nil) != ok {
			t.Errorf("%q: got the error %v, want one: %t", key, err, !ok)
		}
	}
	for at, ok := range map[string]bool{DefaultURL: true, "http://127.0.0.1:1": true, "http://api.stripe.com": false,
		"https://a:b@api.stripe.com": false, "https://api.stripe.com/v1": false, "": false} {
		if err := CheckURL(at); (err == nil) != ok {
			t.Errorf("%q: got the error %v, want one: %t", at, err, !ok)
		}
	}
}
