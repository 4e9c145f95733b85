package edgegateway

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// webhooksStub has one endpoint of the account of the session.
type webhooksStub struct {
	billingv1.UnimplementedWebhookServiceServer
}

func (webhooksStub) ListWebhooks(
	ctx context.Context, _ *billingv1.ListWebhooksRequest,
) (*billingv1.ListWebhooksResponse, error) {
	who, ok := serve.User(ctx)
	if !ok {
		return nil, status.Error(codes.Internal, "no user is named")
	}
	return &billingv1.ListWebhooksResponse{List: []*billingv1.Webhook{{WebhookId: "w", Description: who.Account}}}, nil
}

func (webhooksStub) ListWebhookDeliveries(
	context.Context, *billingv1.ListWebhookDeliveriesRequest,
) (*billingv1.ListWebhookDeliveriesResponse, error) {
	return &billingv1.ListWebhookDeliveriesResponse{}, nil
}

func TestWebhooksAreThoseOfTheSessionsAccount(t *testing.T) {
	f := newFleet(t).start()
	var list struct {
		List []struct {
			Description string   `json:"description"`
			Kinds       []string `json:"kinds"`
			Enabled     *bool    `json:"enabled"`
		} `json:"list"`
		Low *string `json:"balance_low_usd_str"`
	}
	wantJSON(t, f.do(http.MethodGet, "/api/v1/user/me/webhooks", "", "Authorization", "Bearer "+sessionToken), 200, &list)
	if len(list.List) != 1 || list.List[0].Description == "" {
		t.Fatalf("list: got %+v, want the endpoint of the session's account", list)
	}
	if list.List[0].Enabled == nil || list.List[0].Kinds == nil || list.Low == nil {
		t.Errorf("zero values: got %+v, want them written", list)
	}
	wantError(t, f.do(http.MethodGet, "/api/v1/user/me/webhooks", "", "Authorization", "Bearer "+f.key), 401, "wrong_key_type")
}
