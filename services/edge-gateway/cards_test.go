package edgegateway

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// cards is billing-ledger's part of card payments: it has one session, x, and takes one
// signature.
type cards struct {
	billingv1.UnimplementedCardWebhookServiceServer
	billingv1.UnimplementedCardSandboxServiceServer

	mu       sync.Mutex
	received [][]byte
	session  *billingv1.SandboxSession
	refusal  error // of every call of the sandbox
	calls    int
}

const goodSignature = "t=1,v1=00"

func newCards() *cards {
	return &cards{session: &billingv1.SandboxSession{
		SessionId: "x", State: billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_OPEN, TotalCents: 2000,
		Description: `Collateral of <script>alert("you")</script>`, ReturnUrl: "https://market.example/collateral",
		ExpiresAt: timestamppb.Now(),
	}}
}

func (c *cards) Receive(_ context.Context, req *billingv1.ReceiveRequest) (*billingv1.ReceiveResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if req.GetSignature() != goodSignature {
		return nil, fault.New(fault.Invalid, fault.InvalidSignature, "no")
	}
	c.received = append(c.received, req.GetBody())
	return &billingv1.ReceiveResponse{}, nil
}

func (c *cards) find(id string) error {
	c.calls++
	if c.refusal != nil {
		return c.refusal
	}
	if id != "x" {
		return fault.New(fault.NotFound, fault.SessionNotFound, "no")
	}
	return nil
}

func (c *cards) GetSandboxSession(
	_ context.Context, req *billingv1.GetSandboxSessionRequest,
) (*billingv1.GetSandboxSessionResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.find(req.GetSessionId()); err != nil {
		return nil, err
	}
	return &billingv1.GetSandboxSessionResponse{Session: proto.CloneOf(c.session)}, nil
}

func (c *cards) ActOnSandboxSession(
	_ context.Context, req *billingv1.ActOnSandboxSessionRequest,
) (*billingv1.ActOnSandboxSessionResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.find(req.GetSessionId()); err != nil {
		return nil, err
	}
	switch req.GetAction() {
	case billingv1.SandboxAction_SANDBOX_ACTION_PAY, billingv1.SandboxAction_SANDBOX_ACTION_WIN_DISPUTE:
		c.session.State = billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_PAID
	case billingv1.SandboxAction_SANDBOX_ACTION_DECLINE:
		return nil, fault.New(fault.Precondition, fault.TransitionNotAllowed, "no")
	default:
		c.session.State = billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_CHARGED_BACK
	}
	return &billingv1.ActOnSandboxSessionResponse{Session: proto.CloneOf(c.session)}, nil
}

func TestAWebhookIsHandedOnByteForByte(t *testing.T) {
	f := newFleet(t).start()
	body := "{\"id\": \"evt_1\",\t\"odd\":\"\xff\x00\"}\n\n"
	resp := f.do(http.MethodPost, "/webhooks/card", body, "X-Svc-Signature", goodSignature)
	if got, want := read(t, resp), `{"received":true}`; got != want {
		t.Errorf("the answer: got %q, want %q", got, want)
	}
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status: got %d, want 200", resp.StatusCode)
	}
	if got := bytes.Join(f.cards.received, []byte("|")); string(got) != body {
		t.Errorf("handed on: got %q, want %q", got, body)
	}
}

func TestAWebhookThatIsNotSignedOnceIsRefused(t *testing.T) {
	f := newFleet(t).start()
	for name, headers := range map[string][]string{
		"no signature":   nil,
		"two signatures": {"X-Svc-Signature", goodSignature, "X-Svc-Signature", goodSignature},
		"another's":      {"X-Svc-Signature", "t=1,v1=01"},
	} {
		resp := f.do(http.MethodPost, "/webhooks/card", `{}`, headers...)
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status: got %d, want 400", name, resp.StatusCode)
		}
		wantError(t, resp, http.StatusBadRequest, "invalid_signature")
	}
	if len(f.cards.received) != 0 {
		t.Errorf("events: got %d, want 0", len(f.cards.received))
	}
}

func TestAWebhookHasAtMost256KiB(t *testing.T) {
	f := newFleet(t).start()
	const limit = 256 << 10
	if resp := f.do(http.MethodPost, "/webhooks/card", strings.Repeat("x", limit), "X-Svc-Signature",
		goodSignature); resp.StatusCode != http.StatusOK {
		t.Errorf("at the limit: got status %d, want 200", resp.StatusCode)
	}
	wantError(t, f.do(http.MethodPost, "/webhooks/card", strings.Repeat("x", limit+1), "X-Svc-Signature", goodSignature),
		http.StatusRequestEntityTooLarge, "request_too_large")
	if len(f.cards.received) != 1 {
		t.Errorf("events: got %d, want 1", len(f.cards.received))
	}
}

func TestWhoGuessesSignaturesHasToWait(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.WrongKeys = 3 }).start()
	refused := 0
	for range 20 {
		resp := f.do(http.MethodPost, "/webhooks/card", `{}`, "X-Svc-Signature", "t=1,v1=02")
		if read(t, resp); resp.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("guesses that have to wait: got 0, want some")
	}
	if f.cards.calls > 10 {
		t.Errorf("guesses that were verified: got %d, want at most 10 of 20", f.cards.calls)
	}
}

func TestASandboxPageSaysThatNoMoneyMovesAndHasNoScript(t *testing.T) {
	f := newFleet(t).start()
	resp := f.do(http.MethodGet, "/sandbox/checkout/x", "")
	text := read(t, resp)
	for _, want := range []string{"No money moves", "$20.00", `value="pay"`, `value="decline"`,
		`href="https://market.example/collateral"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page: got %s, want %q in it", text, want)
		}
	}
	if strings.Contains(text, "<script") {
		t.Errorf("the page: got %s, want it without a script", text)
	}
	policy := resp.Header.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy: got %q, want %q in it", policy, want)
		}
	}
	for name, want := range map[string]string{"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store",
		"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestAButtonLeadsBackToThePage(t *testing.T) {
	f := newFleet(t).start()
	// The client follows the answer, 303, to the page.
	for _, step := range []struct{ action, want string }{
		{"pay", "Paid, with sandbox money"}, {"decline", "Paid, with sandbox money"}, {"chargeback", "Charged back"},
		{"win", "Paid, with sandbox money"},
	} {
		resp := f.do(http.MethodPost, "/sandbox/checkout/x", "action="+step.action, "Content-Type",
			"application/x-www-form-urlencoded")
		if text := read(t, resp); !strings.Contains(text, step.want) {
			t.Errorf("after %s: got %s, want %q in it", step.action, text, step.want)
		}
	}
	for _, form := range []string{"", "action=", "action=steal", "%zz", "pay"} {
		wantError(t, f.do(http.MethodPost, "/sandbox/checkout/x", form), http.StatusBadRequest, "invalid_value")
	}
	wantError(t, f.do(http.MethodPost, "/sandbox/checkout/x", strings.Repeat("a", 1025)),
		http.StatusRequestEntityTooLarge, "request_too_large")
}

func TestAnUnknownSessionHasNoPage(t *testing.T) {
	f := newFleet(t).start()
	for _, id := range []string{"y", "x%2Fy", "x/y", "%00", strings.Repeat("x", 256)} {
		wantError(t, f.do(http.MethodGet, "/sandbox/checkout/"+id, ""), http.StatusNotFound, "session_not_found")
		wantError(t, f.do(http.MethodPost, "/sandbox/checkout/"+id, "action=pay"), http.StatusNotFound, "session_not_found")
	}
}

func TestWithoutASandboxThereAreNoPages(t *testing.T) {
	f := newFleet(t).start()
	f.cards.refusal = fault.New(fault.NotFound, fault.RouteNotFound, "no")
	wantError(t, f.do(http.MethodGet, "/sandbox/checkout/x", ""), http.StatusNotFound, "unknown_route")
	wantError(t, f.do(http.MethodPost, "/sandbox/checkout/x", "action=pay"), http.StatusNotFound, "unknown_route")
}
