package edgegateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// ownKeys has the keys of users; it remembers for whom it was called last.
type ownKeys struct {
	billingv1.UnimplementedConsumerKeyServiceServer
	billingv1.UnimplementedConsumerLimitServiceServer
	billingv1.UnimplementedConsumerTermsServiceServer
	mu   sync.Mutex
	user serve.Caller
	last any
}

func (k *ownKeys) called(ctx context.Context, req any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.user, _ = serve.User(ctx)
	k.last = req
}

func (k *ownKeys) CreateConsumerKey(
	ctx context.Context, req *billingv1.CreateConsumerKeyRequest,
) (*billingv1.CreateConsumerKeyResponse, error) {
	k.called(ctx, req)
	return &billingv1.CreateConsumerKeyResponse{Key: &billingv1.ConsumerKey{KeyId: "k"}, ApiKey: "shown once"}, nil
}

func (k *ownKeys) GetConsumerLimits(
	ctx context.Context, req *billingv1.GetConsumerLimitsRequest,
) (*billingv1.GetConsumerLimitsResponse, error) {
	k.called(ctx, req)
	return &billingv1.GetConsumerLimitsResponse{Limits: &billingv1.ConsumerLimits{}}, nil
}

func (k *ownKeys) SetSpendCaps(
	ctx context.Context, req *billingv1.SetSpendCapsRequest,
) (*billingv1.SetSpendCapsResponse, error) {
	k.called(ctx, req)
	return &billingv1.SetSpendCapsResponse{Limits: &billingv1.ConsumerLimits{}}, nil
}

func (k *ownKeys) GetConsumerTerms(
	ctx context.Context, req *billingv1.GetConsumerTermsRequest,
) (*billingv1.GetConsumerTermsResponse, error) {
	k.called(ctx, req)
	return &billingv1.GetConsumerTermsResponse{}, nil
}

func (k *ownKeys) SendEnterpriseContact(
	ctx context.Context, req *billingv1.SendEnterpriseContactRequest,
) (*billingv1.SendEnterpriseContactResponse, error) {
	k.called(ctx, req)
	return &billingv1.SendEnterpriseContactResponse{ContactId: "c"}, nil
}

func (k *ownKeys) ListConsumerKeys(
	ctx context.Context, req *billingv1.ListConsumerKeysRequest,
) (*billingv1.ListConsumerKeysResponse, error) {
	k.called(ctx, req)
	return &billingv1.ListConsumerKeysResponse{}, nil
}

func (k *ownKeys) GetConsumerKey(
	ctx context.Context, req *billingv1.GetConsumerKeyRequest,
) (*billingv1.GetConsumerKeyResponse, error) {
	k.called(ctx, req)
	return &billingv1.GetConsumerKeyResponse{Key: &billingv1.ConsumerKey{KeyId: req.GetKeyId()}}, nil
}

func (k *ownKeys) RevokeConsumerKey(
	ctx context.Context, req *billingv1.RevokeConsumerKeyRequest,
) (*billingv1.RevokeConsumerKeyResponse, error) {
	k.called(ctx, req)
	return nil, fault.New(fault.NotFound, fault.KeyNotFound, "there is no such key").On("key_id")
}

func (k *ownKeys) RotateConsumerKey(
	ctx context.Context, req *billingv1.RotateConsumerKeyRequest,
) (*billingv1.RotateConsumerKeyResponse, error) {
	k.called(ctx, req)
	return &billingv1.RotateConsumerKeyResponse{ApiKey: "shown once"}, nil
}

func TestAUsersRoutesActForTheAccountOfTheSessionAlone(t *testing.T) {
	f := newFleet(t).start()
	session := []string{"Authorization", "Bearer " + sessionToken, "X-Svc-Account", "account-2", "X-Svc-User", "bob",
		"Grpc-Metadata-X-Svc-Account", "account-2"}
	const keys = "/api/v1/user/me/keys"
	for _, tc := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodGet, keys + "?page_size=2&revoked=true", "", http.StatusOK},
		{http.MethodPost, keys, `{"name":"robot","allowed_model_ids":["a/b"],"include_usage":true}`, http.StatusOK},
		{http.MethodPost, keys + "/k/rotate", `{}`, http.StatusOK},
		{http.MethodDelete, keys + "/k", "", http.StatusNotFound},
		{http.MethodGet, "/api/v1/consumer/limits", "", http.StatusOK},
		{http.MethodPut, "/api/v1/consumer/limits", `{"day_cap_usd":"5"}`, http.StatusOK},
		{http.MethodGet, "/api/v1/consumer/terms", "", http.StatusOK},
		{http.MethodPost, "/api/v1/consumer/enterprise-contact", `{"message":"<b>\u202e","company":""}`, http.StatusOK},
	} {
		f.ownKeys.called(t.Context(), nil)
		resp := f.do(tc.method, tc.path, tc.body, session...)
		body := read(t, resp)
		if resp.StatusCode != tc.status {
			t.Errorf("%s %s: %s: got %d, want %d", tc.method, tc.path, body, resp.StatusCode, tc.status)
		}
		if got := f.ownKeys.user; got.User != userID || got.Account != "account-1" {
			t.Errorf("%s %s: made for: got %+v, want %s and account-1", tc.method, tc.path, got, userID)
		}
		if got := resp.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf(`%s %s: Cache-Control: got %q, want "no-store"`, tc.method, tc.path, got)
		}
	}
	made := f.do(http.MethodPost, keys, `{"name":"robot","include_usage":true}`, session...)
	if body := read(t, made); !strings.Contains(body, `"api_key":"shown once"`) {
		t.Errorf(`made: got %s, want "shown once" in it`, body)
	}
	if req, ok := f.ownKeys.last.(*billingv1.CreateConsumerKeyRequest); !ok || !req.GetSettings().GetIncludeUsage() {
		t.Errorf("settings: got %v, want include_usage", f.ownKeys.last)
	}
	wantError(t, f.do(http.MethodPost, keys, `{"account_id":"account-2"}`, session...), http.StatusBadRequest,
		"invalid_request")
	giant := `{"name":"` + strings.Repeat("x", int(f.cfg.MaxAdminBodyBytes)) + `"}`
	wantError(t, f.do(http.MethodPost, keys, giant, session...), http.StatusRequestEntityTooLarge, "request_too_large")
	wantError(t, f.do(http.MethodGet, keys, "", "Authorization", "Bearer "+f.key), http.StatusUnauthorized,
		"wrong_key_type")
	wantError(t, f.do(http.MethodGet, keys+"/k/rotate/more", "", session...), http.StatusNotFound, "unknown_route")
}

func TestAKeyThatMayNotUseAllModelsIsShownThoseThatItMay(t *testing.T) {
	f := newFleet(t).start()
	other := "acme/none"
	f.keys.set(nil, other)
	list := func(headers ...string) string { return read(t, f.do(http.MethodGet, "/v1/models", "", headers...)) }
	if got := list(); !strings.Contains(got, modelID) {
		t.Errorf("without a key: got %s, want %s in it", got, modelID)
	}
	if got := list("Authorization", "Bearer "+f.key); strings.Contains(got, modelID) {
		t.Errorf("with a key for another model: got %s, want it without %s", got, modelID)
	}
}

func TestAKeysSettingShowsTheUsageOfAStreamThatDidNotAsk(t *testing.T) {
	f := newFleet(t).start()
	f.hub.set(streamAnswer)
	streamed := strings.Replace(hello, "{", `{"stream":true,`, 1)
	if body := read(t, f.post(streamed)); strings.Contains(body, `"usage":{`) {
		t.Errorf("without the setting: got %s, want no usage in it", body)
	}
	f.keys.includeUsage()
	f.svc.auth.Forget("key-1")
	if body := read(t, f.post(streamed)); !strings.Contains(body, `"usage":{`) || !strings.Contains(body, `"cost"`) {
		t.Errorf("with the setting: got %s, want the usage and its cost in it", body)
	}
}

func TestARefusalByABudgetSaysWhichAndWhenItBeginsAnew(t *testing.T) {
	f := newFleet(t).start()
	f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "the budget of this API key is spent").
		With("limit_name", "key_budget").With("resets_at", "2027-01-01T00:00:00Z"))
	resp := f.post(hello)
	body := read(t, resp)
	if resp.StatusCode != http.StatusPaymentRequired {
		t.Errorf("status: got %d, want 402", resp.StatusCode)
	}
	for _, want := range []string{`"code":"insufficient_credits"`,
		`"metadata":{"reason":"key_budget","resets_at":"2027-01-01T00:00:00Z"}`} {
		if !strings.Contains(body, want) {
			t.Errorf("body: got %s, want %s in it", body, want)
		}
	}
	wantHeaders(t, resp.Header, map[string]string{"X-Should-Retry": "false", "X-Svc-Fallback-Reason": ""})
}
