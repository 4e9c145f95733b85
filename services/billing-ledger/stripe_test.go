package billingledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/card/stripe/stripetest"
)

const webhookSecret = "whsec_of_the_scripted_server"

// till is the service with the scripted server as its card processor.
type till struct {
	*fleet
	server *stripetest.Server
	keys   card.Keys
}

func startWithStripe(t *testing.T) *till {
	t.Helper()
	server := stripetest.New(t)
	keys, err := card.NewKeys(webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	f := assemble(t, func(c *billingledger.Config) {
		c.Card.Processor, c.Card.StripeURL = "stripe", server.URL
		c.Card.StripeKey, c.Card.WebhookSecret = config.NewSecret(stripetest.Key), config.NewSecret(webhookSecret)
	})
	f.run(t)
	f.catalog.snapshots <- models()
	until(t, func() bool { return f.service.Ready(t.Context()) == nil })
	return &till{fleet: f, server: server, keys: keys}
}

// send sends an event as the card processor does, signed at a time.
func (s *till) send(t *testing.T, body []byte, at time.Time) error {
	t.Helper()
	_, err := s.webhooks.Receive(t.Context(), &billingv1.ReceiveRequest{Body: body, Processor: "stripe",
		Signature: s.keys.Sign(body, at)})
	return err
}

// news sends all events, the newest first and each twice.
func (s *till) news(t *testing.T) {
	t.Helper()
	events := s.server.Events(t)
	for i := range events {
		for range 2 {
			if err := s.send(t, events[len(events)-1-i], time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// topUp opens a page of credit, and returns its checkout and the session.
func (s *till) topUp(t *testing.T, account, amount, key string) (checkout, session string) {
	t.Helper()
	resp, err := s.checkouts.CreateTopUp(as(t, account, "idempotency-key", key),
		&billingv1.CreateTopUpRequest{AmountUsd: amount})
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ = strings.Cut(resp.GetUrl(), "https://checkout.example/")
	return resp.GetCheckoutId(), session
}

// wantBalance waits until an account has credit, a debt and causes that freeze it.
func (s *till) wantBalance(t *testing.T, account, credit, debt string, causes ...string) {
	t.Helper()
	var last *billingv1.GetBalanceResponse
	until(t, func() bool {
		// Debts are paid when they are due.
		s.arrange(t, `UPDATE card_debt SET due_at = now() WHERE due_at IS NOT NULL`)
		got, err := s.passbooks.GetBalance(as(t, account), &billingv1.GetBalanceRequest{})
		if err != nil {
			t.Fatal(err)
		}
		last = got
		var frozen []string
		for _, f := range got.GetFreezes() {
			frozen = append(frozen, f.GetCause())
		}
		return got.GetCreditUsdStr() == credit && got.GetDebtUsdStr() == debt &&
			strings.Join(frozen, " ") == strings.Join(causes, " ") && got.GetFrozen() == (len(causes) > 0)
	})
	if len(last.GetFreezeCauses()) != len(causes) {
		t.Errorf("the causes in words: got %v, want %d", last.GetFreezeCauses(), len(causes))
	}
}

func TestCreditByStripeIsBoughtRefundedDisputedAndRepaid(t *testing.T) {
	t.Parallel()
	s := startWithStripe(t)
	account := s.consumer(t, "").account
	checkout, session := s.topUp(t, account, "20", "k1")
	payment := s.server.Pay(session, "card-1")
	s.news(t)
	s.wantBalance(t, account, "20.00", "0.00")
	for range 2 {
		back, err := s.checkouts.RefundTopUp(as(t, account, "idempotency-key", "r1"),
			&billingv1.RefundTopUpRequest{CheckoutId: checkout, AmountUsd: "5"})
		if err != nil {
			t.Fatal(err)
		}
		if got := back.GetRefund(); got.GetState() != "by_card" || got.GetAmountUsdStr() != "5.00" {
			t.Errorf("the refund: got %s %s, want 5.00 by_card", got.GetAmountUsdStr(), got.GetState())
		}
	}
	dispute := s.server.Dispute(payment, 1591)
	s.news(t)
	s.wantBalance(t, account, "0.00", "0.91", "debt", "dispute")
	_, err := s.checkouts.RefundTopUp(as(t, account, "idempotency-key", "r2"),
		&billingv1.RefundTopUpRequest{CheckoutId: checkout})
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("a refund of a frozen account: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	_, session = s.topUp(t, account, "10", "k2")
	s.server.Pay(session, "card-1")
	s.news(t)
	s.wantBalance(t, account, "9.09", "0.00", "dispute")
	s.server.Close(dispute)
	s.news(t)
	s.wantBalance(t, account, "9.09", "0.00")
	list, err := s.checkouts.ListTopUpRefunds(as(t, account), &billingv1.ListTopUpRefundsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(list.GetRefunds()); n != 1 {
		t.Errorf("refunds: got %d, want 1", n)
	}
	s.wantSound(t)
}

func TestAPlanByStripeIsSoldRenewedAndFrozenByItsDispute(t *testing.T) {
	t.Parallel()
	s := startWithStripe(t)
	account := s.consumer(t, "1").account
	resp, err := s.subscriptions.Subscribe(as(t, account, "idempotency-key", "k1"),
		&billingv1.SubscribeRequest{Plan: "pro"})
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(resp.GetUrl(), "https://checkout.example/")
	subscription := s.server.Pay(session, "card-1")
	s.news(t)
	first := s.standing(t, account, inState("active"))
	s.server.Renew(subscription)
	s.news(t)
	s.standing(t, account, func(now *billingv1.PlanSubscription) bool {
		return now.GetState() == "active" && now.GetPeriodEnd().AsTime().After(first.GetPeriodEnd().AsTime())
	})
	payment := s.scan(t, `SELECT payment_id FROM plan_invoice ORDER BY period_end DESC LIMIT 1`)
	dispute := s.server.Dispute(payment, 600)
	s.news(t)
	s.standing(t, account, inState("ended"))
	s.wantBalance(t, account, "1.00", "0.00", "dispute")
	s.server.Close(dispute)
	s.news(t)
	s.wantBalance(t, account, "1.00", "0.00")
	s.wantSound(t)
}

func TestARenewalThatStripesCardDeclinesIsPastDueUntilItIsPaid(t *testing.T) {
	t.Parallel()
	s := startWithStripe(t)
	account := s.consumer(t, "1").account
	resp, err := s.subscriptions.Subscribe(as(t, account, "idempotency-key", "k1"),
		&billingv1.SubscribeRequest{Plan: "pro"})
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(resp.GetUrl(), "https://checkout.example/")
	subscription := s.server.Pay(session, "card-1")
	s.news(t)
	s.standing(t, account, inState("active"))
	over := time.Now().Add(-time.Minute)
	s.server.Change(subscription, func(o map[string]any) { o["period_end"] = over.Unix() })
	invoice := s.server.Decline(subscription)
	s.arrange(t, `UPDATE subscription SET period_start = period_start - interval '32 days',
			period_end = now() - interval '1 minute', due_at = now(), created_at = created_at - interval '32 days';
		UPDATE plan_invoice SET period_start = period_start - interval '32 days', period_end = now() - interval '1 minute',
			paid_at = paid_at - interval '32 days';
		UPDATE account_plan SET from_at = from_at - interval '32 days', until_at = now() + interval '71 hours 59 minutes'`)
	s.news(t)
	s.standing(t, account, inState("past_due"))
	if n := s.scan(t, `SELECT count(*)::text FROM plan_invoice`); n != "1" {
		t.Errorf("invoices: got %s, want 1: nobody has paid the other", n)
	}
	s.server.Collect(invoice)
	s.news(t)
	s.standing(t, account, func(now *billingv1.PlanSubscription) bool {
		return now.GetState() == "active" && now.GetPeriodEnd().AsTime().After(time.Now().AddDate(0, 0, 27))
	})
	s.wantBalance(t, account, "1.00", "0.00")
	s.wantSound(t)
}

func TestNoFalseEventOfStripeChangesABalance(t *testing.T) {
	t.Parallel()
	s := startWithStripe(t)
	account, other := s.consumer(t, "").account, s.consumer(t, "").account
	var events [][]byte
	for key, change := range map[string]func(o map[string]any){
		"another amount":   func(o map[string]any) { o["amount_total"] = int64(100_000) },
		"another currency": func(o map[string]any) { o["currency"] = "jpy" },
		"another mode":     func(o map[string]any) { o["livemode"] = true },
		"another account":  func(o map[string]any) { o["metadata"].(map[string]any)["account"] = other },
	} {
		_, session := s.topUp(t, account, "20", key)
		s.server.Pay(session, "card-1")
		s.server.Change(session, change)
	}
	events = s.server.Events(t)
	forged, err := json.Marshal(map[string]any{"id": "evt_forged", "type": "checkout.session.completed",
		"data": map[string]any{"object": map[string]any{"id": "cs_nobody", "amount_total": 1_000_000}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.send(t, forged, time.Now()); err != nil { // its secret leaked
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a stale one":             s.send(t, events[0], time.Now().Add(-6*time.Minute)),
		"one of the future":       s.send(t, events[0], time.Now().Add(6*time.Minute)),
		"one of a foreign secret": s.foreign(t, events[0]),
	} {
		if !fault.Is(err, fault.InvalidSignature) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.InvalidSignature)
		}
	}
	s.news(t)
	until(t, func() bool {
		return s.scan(t, `SELECT count(*)::text FROM card_alarm WHERE reason = 'differs'`) == "4" &&
			s.scan(t, `SELECT count(*)::text FROM card_alarm WHERE reason = 'missing'`) == "1"
	})
	for _, of := range []string{account, other} {
		s.wantBalance(t, of, "0.00", "0.00")
	}
	if _, err := s.sandbox.ActOnSandboxSession(t.Context(), &billingv1.ActOnSandboxSessionRequest{SessionId: "cs_000001",
		Action: billingv1.SandboxAction_SANDBOX_ACTION_LOSE_DISPUTE}); !fault.Is(err, fault.RouteNotFound) {
		t.Errorf("a button of the sandbox: got the error %v, want the reason %s", err, fault.RouteNotFound)
	}
	s.wantSound(t)
}

// foreign sends an event that is signed with another secret.
func (s *till) foreign(t *testing.T, body []byte) error {
	t.Helper()
	keys, err := card.NewKeys("whsec_of_somebody_else")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.webhooks.Receive(t.Context(), &billingv1.ReceiveRequest{Body: body, Processor: "stripe",
		Signature: keys.Sign(body, time.Now())})
	return err
}

func TestADisputeInTheSandboxIsLostOnce(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	p := newUUID(t)
	_, session := f.checkout(t, p)
	f.press(t, session, pay)
	f.press(t, session, chargeBack)
	for range 2 {
		if !f.press(t, session, billingv1.SandboxAction_SANDBOX_ACTION_LOSE_DISPUTE).GetDisputeLost() {
			t.Error("the dispute: got it open, want it lost")
		}
	}
	f.changed(t, p, 1, 2000)
	_, err := f.sandbox.ActOnSandboxSession(t.Context(), &billingv1.ActOnSandboxSessionRequest{SessionId: session,
		Action: winDispute})
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("a win of what is lost: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	f.wantSound(t)
}
