package billingledger_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
	"svc.internal/services/billing-ledger/internal/webhook"
)

// received is a message as its receiver has it.
type received struct {
	header http.Header
	body   []byte
}

// receiver takes messages.
func receiver(t *testing.T) (url string, heard <-chan received) {
	t.Helper()
	all := make(chan received, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		all <- received{r.Header, body}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hook", all
}

// signedBy reports whether a message is signed with a secret, as a receiver verifies it.
func (m received) signedBy(secret string) bool {
	at, rest, _ := strings.Cut(strings.TrimPrefix(m.header.Get("X-Svc-Signature"), "t="), ",")
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "."))
	mac.Write(m.body)
	for part := range strings.SplitSeq(rest, ",") {
		if part == "v1="+hex.EncodeToString(mac.Sum(nil)) {
			return true
		}
	}
	return false
}

// once is an outbox of one event, which it gives until it is noted.
type once struct {
	event  accountevent.Event
	stored chan accountevent.ID
}

func (o *once) TakeAccountEvents(context.Context, int) ([]accountevent.Event, error) {
	return []accountevent.Event{o.event}, nil
}

func (o *once) DropAccountEvents(_ context.Context, stored []accountevent.ID) error {
	for _, id := range stored {
		select {
		case o.stored <- id:
		default: // it was noted before
		}
	}
	return nil
}

// hookUser is a context in which a gateway calls for a user.
func hookUser(t *testing.T, u *billingv1.User) context.Context {
	t.Helper()
	return metadata.NewOutgoingContext(t.Context(), serve.UserMetadata(serve.Caller{User: u.GetUserId(),
		Account: u.GetAccountId()}))
}

func TestWhatHappensToAProviderReachesTheWebhookOfItsUserSigned(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *billingledger.Config) { c.Webhooks.Development = true })
	up, err := f.users.SignUpUser(t.Context(), &billingv1.SignUpUserRequest{Email: "ada@example.com", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	provider, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.users.LinkProvider(t.Context(), &billingv1.LinkProviderRequest{UserId: up.GetUser().GetUserId(),
		ProviderId: provider.String()}); err != nil {
		t.Fatal(err)
	}
	ctx := hookUser(t, up.GetUser())
	url, heard := receiver(t)
	made, err := f.endpoints.CreateWebhook(ctx, &billingv1.CreateWebhookRequest{Url: url,
		Kinds: []string{"payout.confirmed"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.endpoints.SendTestWebhook(ctx,
		&billingv1.SendTestWebhookRequest{WebhookId: made.GetWebhook().GetWebhookId()}); err != nil {
		t.Fatal(err)
	}
	if m := wait(t, heard); !m.signedBy(made.GetSecret()) || !strings.Contains(string(m.body), `"type":"webhook.test"`) {
		t.Errorf("the test: got %s, signed %t, want a webhook.test, signed", m.body, m.signedBy(made.GetSecret()))
	}
	rotated, err := f.endpoints.RotateWebhookSecret(ctx,
		&billingv1.RotateWebhookSecretRequest{WebhookId: made.GetWebhook().GetWebhookId()})
	if err != nil {
		t.Fatal(err)
	}

	id, err := accountevent.NewID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	box := &once{stored: make(chan accountevent.ID, 1), event: accountevent.Event{ID: id,
		Kind: accountevent.PayoutConfirmed, Provider: provider, At: time.Now(), Data: []byte(`{"payout_id": "p"}`)}}
	publisher := &accountevent.Publisher{Outbox: box, Bus: f.bus, Notes: bus.SubjectNotedSettlement, Queue: "settlement",
		Log: slog.New(slog.DiscardHandler)}
	running, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- publisher.Run(running) }()
	if got := wait(t, box.stored); got != id {
		t.Errorf("noted: got %s, want %s", got, id)
	}
	m := wait(t, heard)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, secret := range []string{made.GetSecret(), rotated.GetSecret()} {
		if !m.signedBy(secret) {
			t.Errorf("signature %s: got none by a secret that counts, want one by each", m.header.Get("X-Svc-Signature"))
		}
	}
	var body struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			PayoutID string `json:"payout_id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.body, &body); err != nil {
		t.Fatal(err)
	}
	if body.ID != id.String() || body.Type != "payout.confirmed" || body.Data.PayoutID != "p" {
		t.Errorf("body: got %s, want the event", m.body)
	}
	until(t, func() bool {
		list, err := f.endpoints.ListWebhookDeliveries(ctx,
			&billingv1.ListWebhookDeliveriesRequest{WebhookId: made.GetWebhook().GetWebhookId()})
		return err == nil && len(list.GetList()) == 2 && list.GetList()[0].GetState() == "delivered"
	})
}

// Hostile: an account whose receivers never answer delays nobody else.
func TestAReceiverThatNeverAnswersDelaysNoOtherAccount(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *billingledger.Config) { c.Webhooks.Development = true })
	asked, ended, release := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		// The connection is only watched once the body is read.
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done(): // the sender gave up
		case <-release:
		}
		ended <- struct{}{}
	}))
	t.Cleanup(func() {
		close(release)
		silent.Close()
	})
	url, heard := receiver(t)
	test := func(email, url string, endpoints int) {
		t.Helper()
		up, err := f.users.SignUpUser(t.Context(), &billingv1.SignUpUserRequest{Email: email, Password: password})
		if err != nil {
			t.Fatal(err)
		}
		ctx := hookUser(t, up.GetUser())
		for range endpoints {
			made, err := f.endpoints.CreateWebhook(ctx, &billingv1.CreateWebhookRequest{Url: url,
				Kinds: []string{"payout.confirmed"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.endpoints.SendTestWebhook(ctx,
				&billingv1.SendTestWebhookRequest{WebhookId: made.GetWebhook().GetWebhookId()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	test("slow@example.com", silent.URL+"/hook", webhook.MaxEndpoints)
	for range webhook.MaxOfAccount {
		wait(t, asked)
	}
	test("quick@example.com", url, 1)
	wait(t, heard)
	if got := len(ended); got != 0 {
		t.Errorf("messages of the slow account that had ended when the other was served: got %d, want 0", got)
	}
	if got := len(asked); got != 0 {
		t.Errorf("further messages of the slow account at once: got %d, want 0", got)
	}
}

func TestWebhooksAreNobodysWithoutAUserAndFaultsAreNamed(t *testing.T) {
	t.Parallel()
	f := start(t)
	if _, err := f.endpoints.ListWebhooks(t.Context(), &billingv1.ListWebhooksRequest{}); !fault.Is(err, fault.InvalidSession) {
		t.Errorf("without a user: got %v, want the reason %s", err, fault.InvalidSession)
	}
	up, err := f.users.SignUpUser(t.Context(), &billingv1.SignUpUserRequest{Email: "ada@example.com", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	ctx := hookUser(t, up.GetUser())
	for name, req := range map[string]*billingv1.CreateWebhookRequest{
		"http": {Url: "http://127.0.0.1/"}, "a kind that is none": {Url: "https://example.org/", Kinds: []string{"webhook.test"}},
		"a long description": {Url: "https://example.org/", Description: strings.Repeat("x", 201)},
	} {
		if _, err := f.endpoints.CreateWebhook(ctx, req); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got %v, want the reason %s", name, err, fault.InvalidValue)
		}
	}
	for _, cursor := range []string{"x", "1", "-1." + ids.EntryID{1}.String(), "1.x"} {
		made, err := f.endpoints.ListWebhookDeliveries(ctx, &billingv1.ListWebhookDeliveriesRequest{Cursor: cursor,
			WebhookId: ids.EntryID{1}.String()})
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("cursor %q: got %v, %v, want the reason %s", cursor, made, err, fault.InvalidValue)
		}
	}
	for usd, want := range map[string]string{"5": "5.00", "0": "", "": "", "0.000000001": "0.000000001"} {
		got, err := f.endpoints.SetBalanceLow(ctx, &billingv1.SetBalanceLowRequest{BalanceLowUsd: usd})
		if err != nil || got.GetBalanceLowUsdStr() != want {
			t.Errorf("%q: got %q, %v, want %q", usd, got.GetBalanceLowUsdStr(), err, want)
		}
	}
	for _, usd := range []string{"-1", "x", "1e9", "1000000001"} {
		if _, err := f.endpoints.SetBalanceLow(ctx, &billingv1.SetBalanceLowRequest{BalanceLowUsd: usd}); !fault.Is(err,
			fault.InvalidValue) {
			t.Errorf("%q: got %v, want the reason %s", usd, err, fault.InvalidValue)
		}
	}
}

func TestHTTPToLoopbackIsForAProcessOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "": true, "10.0.0.1:1": false, ":1": false} {
		cfg := billingledger.DefaultConfig()
		cfg.Webhooks.Development = true
		if err := cfg.CheckListeners(address); (err == nil) != ok {
			t.Errorf("%q: got %v, want it taken %t", address, err, ok)
		}
		cfg.Webhooks.Development = false
		if err := cfg.CheckListeners(address); err != nil {
			t.Errorf("%q without it: got %v, want none", address, err)
		}
	}
}
