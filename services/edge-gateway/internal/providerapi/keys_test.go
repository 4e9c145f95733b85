package providerapi

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

func (h *hub) ListKeys(
	_ context.Context, req *hubv1.ListKeysRequest, _ ...grpc.CallOption,
) (*hubv1.ListKeysResponse, error) {
	h.asked++
	return &hubv1.ListKeysResponse{Keys: []*hubv1.ProviderKey{
		{KeyId: "k1", KeyPrefix: "sk-prov-on", Name: "of " + req.GetProviderId(), Active: true,
			CreatedAt: &timestamppb.Timestamp{Seconds: 1}},
	}}, nil
}

func (h *hub) RevokeKey(
	_ context.Context, req *hubv1.RevokeKeyRequest, _ ...grpc.CallOption,
) (*hubv1.RevokeKeyResponse, error) {
	h.asked++
	if req.GetProviderId() != "p1" || req.GetKeyId() != "k1" {
		return nil, fault.New(fault.NotFound, fault.KeyNotFound, "no such provider key")
	}
	return &hubv1.RevokeKeyResponse{}, nil
}

// The account is the account of the session's user, whatever else a call says.
func TestKeysAreThoseOfTheSessionsUser(t *testing.T) {
	b := setup(t)
	b.ledger.user = &billingv1.User{UserId: "u1", ProviderId: "p1"}
	c := with("token", `{"provider_id":"p2"}`)
	c.Query.Set("provider_id", "p2")
	c.Method = http.MethodGet
	const want = `{"provider_id":"p1","keys":[{"key_id":"k1","key_prefix":"sk-prov-on","name":"of p1","active":true,` +
		`"created_at":"1970-01-01T00:00:01Z","expires_at":null,"revoked_at":null,` +
		`"last_used_at":null}]}`
	if a, err := b.ProviderKeys(t.Context(), c); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if string(a.JSON) != want {
		t.Errorf("a.JSON: got %q, want %q", string(a.JSON), want)
	}
	c.Rest = "k1"
	switch a, err := b.RevokeProviderKey(t.Context(), c); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case a.Status != 200:
		t.Errorf("a.Status: got %d, want 200", a.Status)
	case !strings.Contains(string(a.JSON), `"key_id":"k1"`):
		t.Errorf("a.JSON: got %q, want %q in it", string(a.JSON), `"key_id":"k1"`)
	}
	b.ledger.user.ProviderId = "p2"
	for _, rest := range []string{"k1", "%zz", "", strings.Repeat("x", 10_000), "..%2f"} {
		c.Rest = rest
		if _, err := b.RevokeProviderKey(t.Context(), c); !fault.Is(err, fault.KeyNotFound) {
			t.Errorf("another's key as %.20q: got the error %v, want the reason %v", rest, err, fault.KeyNotFound)
		} else if got := apierror.Of(err).Status; got != 404 {
			t.Errorf("another's key as %.20q: apierror.Of(err).Status: got %d, want 404", rest, got)
		}
	}
}

func TestKeysAreNotShownWithoutASessionOrAProvider(t *testing.T) {
	b := setup(t)
	b.ledger.user = &billingv1.User{UserId: "u1"}
	for credential, reason := range map[string]fault.Reason{"token": fault.ProviderNotFound, b.key: apierror.WrongKeyType,
		"": apierror.MissingAPIKey} {
		for _, ask := range []func(context.Context, Call) (Answer, error){b.ListProviderKeys, b.RevokeProviderKey} {
			if a, err := ask(t.Context(), with(credential, "")); !fault.Is(err, reason) {
				t.Errorf("%.8q: got the error %v, want the reason %v", credential, err, reason)
			} else if a.JSON != nil {
				t.Errorf("%.8q: a.JSON: got %q, want nil", credential, a.JSON)
			}
		}
	}
	if b.hub.asked != 0 {
		t.Errorf("a hub was asked: got %d, want 0", b.hub.asked)
	}
}
