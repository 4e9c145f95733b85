package edgegateway

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// subscriptions is billing-ledger's part of plans that are sold: account-1 has one.
type subscriptions struct {
	billingv1.UnimplementedSubscriptionServiceServer
	billingv1.UnimplementedSubscriptionAdminServiceServer
	billingv1.UnimplementedPlanServiceServer
}

func (subscriptions) ListPlans(context.Context, *billingv1.ListPlansRequest) (*billingv1.ListPlansResponse, error) {
	return &billingv1.ListPlansResponse{Plans: []*billingv1.Plan{{Id: "pro", Name: "Pro", PriceUsdStr: "6.00"}}}, nil
}

func TestAnybodySeesThePlansThatAreSold(t *testing.T) {
	f := start(t)
	want := `{"plans":[{"id":"pro","name":"Pro","price_usd_str":"6.00","covers":[],"limits":[]}]}`
	if body := read(t, f.do(http.MethodGet, "/api/v1/plans", "")); body != want {
		t.Errorf("got %q, want %q", body, want)
	}
	wantError(t, f.do(http.MethodPost, "/api/v1/plans", "{}"), 405, "method_not_allowed")
	wantError(t, f.do(http.MethodGet, "/api/v1/plans/pro", ""), 404, "unknown_route")
}

func (subscriptions) GetSubscription(
	context.Context, *billingv1.GetSubscriptionRequest,
) (*billingv1.GetSubscriptionResponse, error) {
	return &billingv1.GetSubscriptionResponse{Subscription: &billingv1.PlanSubscription{State: "active", Plan: "pro",
		Limits: []*billingv1.SubscriptionLimit{{Kind: "requests", Period: "day", Used: 3, Cap: 1500}}}}, nil
}

// Subscribe says under which key and for whom it sells.
func (subscriptions) Subscribe(
	ctx context.Context, req *billingv1.SubscribeRequest,
) (*billingv1.SubscribeResponse, error) {
	who, _ := serve.User(ctx)
	key := append(metadata.ValueFromIncomingContext(ctx, "idempotency-key"), "")[0]
	if req.GetPlan() == "taken" {
		return nil, fault.New(fault.Precondition, fault.AlreadyExists, "the account has a subscription")
	}
	return &billingv1.SubscribeResponse{Url: "https://pay.example/" + who.Account + "/" + key,
		Subscription: &billingv1.PlanSubscription{State: "incomplete", Plan: req.GetPlan()}}, nil
}

func (subscriptions) CancelSubscription(
	context.Context, *billingv1.CancelSubscriptionRequest,
) (*billingv1.CancelSubscriptionResponse, error) {
	return nil, fault.New(fault.NotFound, fault.SubscriptionNotFound, "The account has no subscription.")
}

func (subscriptions) RefundPlanInvoice(
	context.Context, *billingv1.RefundPlanInvoiceRequest,
) (*billingv1.RefundPlanInvoiceResponse, error) {
	return &billingv1.RefundPlanInvoiceResponse{}, nil
}

func TestAConsumerSubscribesToAPlan(t *testing.T) {
	f := start(t)
	const path = "/api/v1/consumer/subscription"
	auth := []string{"Authorization", "Bearer " + sessionToken, "Idempotency-Key", "k1"}
	var sold struct {
		URL          string
		Subscription struct{ State string }
	}
	wantJSON(t, f.do(http.MethodPost, path, `{"plan":"pro"}`, auth...), 200, &sold)
	if sold.URL != "https://pay.example/account-1/k1" {
		t.Errorf("the page: got %q, want one for account-1 under k1", sold.URL)
	}
	if sold.Subscription.State != "incomplete" {
		t.Errorf("state: got %q, want incomplete", sold.Subscription.State)
	}
	wantError(t, f.do(http.MethodPost, path, `{"plan":"taken"}`, auth...), 409, "already_exists")
	wantError(t, f.do(http.MethodPost, path, `{"plan":"pro","price":"1"}`, auth...), 400, "invalid_request")
	wantError(t, f.do(http.MethodPost, path, `{"plan":"pro"}`), 401, "missing_api_key")
	var stands struct {
		Subscription struct {
			Limits []struct{ Used, Cap float64 }
		}
	}
	wantJSON(t, f.do(http.MethodGet, path, "", auth[:2]...), 200, &stands)
	limits := stands.Subscription.Limits
	if len(limits) != 1 {
		t.Fatalf("limits: got %+v, want one", limits)
	}
	if limits[0].Used != 3 || limits[0].Cap != 1500 {
		t.Errorf("limit: got %v of %v, want 3 of 1500", limits[0].Used, limits[0].Cap)
	}
	wantError(t, f.do(http.MethodDelete, path, "", auth[:2]...), 404, "subscription_not_found")
}
