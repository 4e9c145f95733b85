package billingledger_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

// edge is what a gateway does with webhooks.
type edge struct {
	to   atomic.Pointer[fleet]
	last atomic.Pointer[billingv1.ReceiveRequest]
	// lost webhooks are answered with 500.
	lost atomic.Bool
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	req := &billingv1.ReceiveRequest{Body: body, Signature: r.Header.Get("X-Svc-Signature")}
	if err != nil || r.URL.Path != "/webhooks/card" || e.lost.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if _, err := e.to.Load().webhooks.Receive(r.Context(), req); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e.last.Store(req)
}

// startWithCards runs the service beside an edge.
func startWithCards(t *testing.T, change ...func(*billingledger.Config)) (*fleet, *edge) {
	t.Helper()
	e := &edge{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	f := assemble(t, append(change, func(c *billingledger.Config) { c.Card.SandboxURL = server.URL + "/" })...)
	e.to.Store(f)
	f.run(t)
	f.catalog.snapshots <- models()
	until(t, func() bool { return f.service.Ready(t.Context()) == nil })
	return f, e
}

func newUUID(t *testing.T) string {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// checkout opens a checkout of $20, and returns it with the id of its session.
func (f *fleet) checkout(t *testing.T, provider string) (*billingv1.Checkout, string) {
	t.Helper()
	resp, err := f.cards.CreateCollateralCheckout(t.Context(), &billingv1.CreateCollateralCheckoutRequest{
		CheckoutId: newUUID(t), ProviderId: provider, AmountCents: 2000, ReturnUrl: "http://127.0.0.1/",
	})
	if err != nil {
		t.Fatal(err)
	}
	c := resp.GetCheckout()
	_, session, ok := strings.Cut(c.GetUrl(), "/sandbox/checkout/")
	if !ok {
		t.Fatalf("url: got %q, want a page of the sandbox", c.GetUrl())
	}
	return c, session
}

func (f *fleet) press(t *testing.T, session string, action billingv1.SandboxAction) *billingv1.SandboxSession {
	t.Helper()
	resp, err := f.sandbox.ActOnSandboxSession(t.Context(), &billingv1.ActOnSandboxSessionRequest{
		SessionId: session, Action: action})
	if err != nil {
		t.Fatalf("%s: %v", action, err)
	}
	return resp.GetSession()
}

// changed waits until a provider's payments are so many, reversed as much.
func (f *fleet) changed(t *testing.T, provider string, payments int, reversed int64) []*billingv1.CollateralPayment {
	t.Helper()
	var list []*billingv1.CollateralPayment
	until(t, func() bool {
		resp, err := f.cards.ListCollateralPayments(t.Context(),
			&billingv1.ListCollateralPaymentsRequest{ProviderId: provider})
		if err != nil {
			t.Fatal(err)
		}
		list = resp.GetPayments()
		var back int64
		for _, p := range list {
			back += p.GetReversedCents()
		}
		return len(list) == payments && back == reversed
	})
	return list
}

const (
	pay        = billingv1.SandboxAction_SANDBOX_ACTION_PAY
	decline    = billingv1.SandboxAction_SANDBOX_ACTION_DECLINE
	chargeBack = billingv1.SandboxAction_SANDBOX_ACTION_CHARGE_BACK
	winDispute = billingv1.SandboxAction_SANDBOX_ACTION_WIN_DISPUTE
	failRefund = billingv1.SandboxAction_SANDBOX_ACTION_FAIL_REFUND
)

func TestCollateralIsPaidRefundedAndChargedBackInTheSandbox(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	p := newUUID(t)
	c, session := f.checkout(t, p)
	if c.GetLivemode() {
		t.Error("livemode: got true, want false in the sandbox")
	}
	if got := f.press(t, session, decline); !got.GetDeclined() {
		t.Error("declined: got false, want true")
	}
	for range 2 {
		if got := f.press(t, session, pay); got.GetState() != billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_PAID {
			t.Errorf("session: got %s, want paid", got.GetState())
		}
	}
	f.changed(t, p, 1, 0)
	refund := &billingv1.RefundCollateralRequest{RefundId: newUUID(t), CheckoutId: c.GetCheckoutId(), AmountCents: 500}
	for range 2 {
		resp, err := f.cards.RefundCollateral(t.Context(), refund)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := resp.GetState(), billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_BY_CARD; got != want {
			t.Errorf("refund: got %s, want %s", got, want)
		}
	}
	for range 2 {
		if got := f.press(t, session, chargeBack); got.GetState() !=
			billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_CHARGED_BACK {
			t.Errorf("session: got %s, want charged back", got.GetState())
		}
	}
	left := f.changed(t, p, 1, 1500)[0]
	if got := left.GetRefundedCents(); got != 500 {
		t.Errorf("refunded: got %d, want 500", got)
	}
	if got := left.GetLeftCents(); got != 0 {
		t.Errorf("left: got %d, want 0", got)
	}
	for range 2 {
		got := f.press(t, session, winDispute).GetState()
		if got != billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_PAID {
			t.Errorf("session: got %s, want paid", got)
		}
	}
	if got := f.changed(t, p, 1, 0)[0].GetLeftCents(); got != 1500 {
		t.Errorf("left after the dispute was won: got %d, want 1500", got)
	}
	list, err := f.cards.ListCollateralChanges(t.Context(), &billingv1.ListCollateralChangesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, change := range list.GetChanges() {
		kinds = append(kinds, strings.TrimPrefix(change.GetKind().String(), "COLLATERAL_CHANGE_KIND_"))
	}
	if got, want := strings.Join(kinds, " "), "PAID REFUND_ENDED REVERSED DISPUTE_WON"; got != want {
		t.Errorf("changes: got %s, want %s", got, want)
	}
	f.wantSound(t)
}

// wantSound wants verify to find no drift.
func (f *fleet) wantSound(t *testing.T) {
	t.Helper()
	report, err := billingledger.Verify(t.Context(), f.db)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		for _, example := range i.Examples {
			t.Errorf("drift: %s: %s", i.Name, example)
		}
	}
}

func TestASentWebhookIsTakenAgainAndNoForgedOne(t *testing.T) {
	t.Parallel()
	f, e := startWithCards(t, func(c *billingledger.Config) {
		c.Card.WebhookSecret = config.NewSecret("the secret of these webhooks")
		c.Card.PreviousWebhookSecret = config.NewSecret("the secret before this one")
	})
	p := newUUID(t)
	_, session := f.checkout(t, p)
	f.press(t, session, pay)
	f.changed(t, p, 1, 0)
	until(t, func() bool { return e.last.Load() != nil })
	sent := e.last.Load()
	if _, err := f.webhooks.Receive(t.Context(), sent); err != nil {
		t.Errorf("again: %v", err)
	}
	for name, tc := range map[string]struct {
		req  *billingv1.ReceiveRequest
		want fault.Reason
	}{
		"another body": {&billingv1.ReceiveRequest{Body: append(sent.GetBody(), ' '), Signature: sent.GetSignature()},
			fault.InvalidSignature},
		"no signature": {&billingv1.ReceiveRequest{Body: sent.GetBody()}, fault.InvalidSignature},
		"huge":         {&billingv1.ReceiveRequest{Body: make([]byte, 256<<10+1)}, fault.RequestTooLarge},
	} {
		if _, err := f.webhooks.Receive(t.Context(), tc.req); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
	f.clock.by.Store(int64(6 * time.Minute))
	if _, err := f.webhooks.Receive(t.Context(), sent); !fault.Is(err, fault.InvalidSignature) {
		t.Errorf("six minutes later: got the error %v, want the reason %s", err, fault.InvalidSignature)
	}
	f.wantSound(t)
}

func TestAPageThatIsOverOrUnknownTakesNoMoney(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	_, session := f.checkout(t, newUUID(t))
	for name, tc := range map[string]struct {
		session string
		action  billingv1.SandboxAction
		want    fault.Reason
	}{
		"unknown":                 {"sbx_cs_nobody", pay, fault.SessionNotFound},
		"no button":               {session, 0, fault.InvalidValue},
		"a dispute of no payment": {session, chargeBack, fault.TransitionNotAllowed},
		"a win of no dispute":     {session, winDispute, fault.TransitionNotAllowed},
	} {
		_, err := f.sandbox.ActOnSandboxSession(t.Context(), &billingv1.ActOnSandboxSessionRequest{SessionId: tc.session,
			Action: tc.action})
		if !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
	f.expireSessions(t)
	if _, err := f.sandbox.ActOnSandboxSession(t.Context(), &billingv1.ActOnSandboxSessionRequest{SessionId: session,
		Action: pay}); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("an expired page: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	resp, err := f.sandbox.GetSandboxSession(t.Context(), &billingv1.GetSandboxSessionRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	want := billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_EXPIRED
	if got := resp.GetSession().GetState(); got != want {
		t.Errorf("the page: got %s, want %s", got, want)
	}
	f.wantSound(t)
}

// expireSessions ends the time of all sessions.
func (f *fleet) expireSessions(t *testing.T) {
	t.Helper()
	if _, err := ownerOf(t, f).Exec(t.Context(), `UPDATE sandbox_session SET expires_at = now()`); err != nil {
		t.Fatal(err)
	}
}

func TestTheListFindsWhatLostWebhooksWouldHaveSaid(t *testing.T) {
	t.Parallel()
	f, e := startWithCards(t)
	e.lost.Store(true)
	p := newUUID(t)
	_, session := f.checkout(t, p)
	f.press(t, session, pay)
	f.press(t, session, chargeBack)
	if _, err := ownerOf(t, f).Exec(t.Context(), `UPDATE card_listing SET due_at = now()`); err != nil {
		t.Fatal(err)
	}
	f.changed(t, p, 1, 2000)
	f.press(t, session, winDispute)
	if _, err := ownerOf(t, f).Exec(t.Context(), `UPDATE card_listing SET due_at = now()`); err != nil {
		t.Fatal(err)
	}
	f.changed(t, p, 1, 0)
	f.wantSound(t)
}

func TestTheSettingsOfCardsAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*billingledger.CardConfig){
		"another processor": func(c *billingledger.CardConfig) { c.Processor = "bank" },
		"a short secret":    func(c *billingledger.CardConfig) { c.WebhookSecret = config.NewSecret("short") },
		"only the old secret": func(c *billingledger.CardConfig) {
			c.PreviousWebhookSecret = config.NewSecret("the secret before this one")
		},
		"no address":       func(c *billingledger.CardConfig) { c.SandboxURL = "" },
		"a path":           func(c *billingledger.CardConfig) { c.SandboxURL = "http://127.0.0.1/a" },
		"a file":           func(c *billingledger.CardConfig) { c.SandboxURL = "file://host/" },
		"a negative fee":   func(c *billingledger.CardConfig) { c.FixedCents = -1 },
		"a fee of a whole": func(c *billingledger.CardConfig) { c.BasisPoints = 10_000 },
	} {
		cfg := billingledger.DefaultConfig().Card
		change(&cfg)
		if err := cfg.Validate(); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	if err := billingledger.DefaultConfig().Card.Validate(); err != nil {
		t.Errorf("the defaults: got the error %v, want none", err)
	}
}

func ownerOf(t *testing.T, f *fleet) *pgxpool.Pool {
	t.Helper()
	return pgtest.Owner(t, f.db)
}

func TestACardThatDoesNotTakeARefundIsAskedAgainInTheSandbox(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	p := newUUID(t)
	c, session := f.checkout(t, p)
	f.press(t, session, pay)
	f.changed(t, p, 1, 0)
	if _, err := f.sandbox.ActOnSandboxSession(t.Context(), &billingv1.ActOnSandboxSessionRequest{SessionId: session,
		Action: failRefund}); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("a failure of no refund: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	refund := &billingv1.RefundCollateralRequest{RefundId: newUUID(t), CheckoutId: c.GetCheckoutId(), AmountCents: 500}
	stands := func(state billingv1.CollateralRefundState, attempt int32) {
		t.Helper()
		until(t, func() bool {
			resp, err := f.cards.RefundCollateral(t.Context(), refund)
			if err != nil {
				t.Fatal(err)
			}
			return resp.GetState() == state && resp.GetAttempt() == attempt
		})
	}
	stands(billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_BY_CARD, 1)
	for range 2 {
		if got := f.press(t, session, failRefund).GetRefundedCents(); got != 0 {
			t.Errorf("on the card: got %d cents, want 0", got)
		}
	}
	stands(billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_ASKED, 2)
	if _, err := ownerOf(t, f).Exec(t.Context(), `UPDATE card_refund SET due_at = now()`); err != nil {
		t.Fatal(err)
	}
	stands(billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_BY_CARD, 2)
	if got := f.changed(t, p, 1, 0)[0].GetRefundedCents(); got != 500 {
		t.Errorf("refunded: got %d, want 500", got)
	}
	f.wantSound(t)
}
