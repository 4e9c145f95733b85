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

// shop is billing-ledger's part of what consumers pay by card: it has one checkout.
type shop struct {
	billingv1.UnimplementedCheckoutServiceServer
}

const soldID = "01890000-0000-7000-8000-00000000000c"

// CreateTopUp sells as much as is asked for, and says under which key and for whom.
func (*shop) CreateTopUp(
	ctx context.Context, req *billingv1.CreateTopUpRequest,
) (*billingv1.CreateTopUpResponse, error) {
	who, _ := serve.User(ctx)
	key := append(metadata.ValueFromIncomingContext(ctx, "idempotency-key"), "")[0]
	return &billingv1.CreateTopUpResponse{CheckoutId: soldID, Url: "https://pay.example/" + who.Account + "/" + key,
		AmountUsdStr: req.GetAmountUsd(), Processor: "sandbox", Fee: 0.91,
		State: billingv1.CheckoutState_CHECKOUT_STATE_CREATED}, nil
}

func (*shop) GetConsumerCheckout(
	_ context.Context, req *billingv1.GetConsumerCheckoutRequest,
) (*billingv1.GetConsumerCheckoutResponse, error) {
	if req.GetCheckoutId() != soldID {
		return nil, fault.New(fault.NotFound, fault.CheckoutNotFound, "no")
	}
	return &billingv1.GetConsumerCheckoutResponse{Checkout: &billingv1.ConsumerCheckout{CheckoutId: soldID,
		State: billingv1.CheckoutState_CHECKOUT_STATE_CREATED}}, nil
}

func (*shop) ListConsumerCheckouts(
	context.Context, *billingv1.ListConsumerCheckoutsRequest,
) (*billingv1.ListConsumerCheckoutsResponse, error) {
	return &billingv1.ListConsumerCheckoutsResponse{
		Checkouts: []*billingv1.ConsumerCheckout{{CheckoutId: soldID,
			State: billingv1.CheckoutState_CHECKOUT_STATE_CREATED}}, More: true}, nil
}

func TestAConsumerBuysCreditByCard(t *testing.T) {
	f := start(t)
	const path = "/api/v1/consumer/checkout"
	auth := []string{"Authorization", "Bearer " + sessionToken, "Idempotency-Key", "k1"}
	var page struct {
		ID     string `json:"checkout_id"`
		URL    string
		Amount string `json:"amount_usd_str"`
		Fee    float64
	}
	wantJSON(t, f.do(http.MethodPost, path, `{"amount_usd":"20"}`, auth...), 200, &page)
	if page.ID != soldID || page.URL != "https://pay.example/account-1/k1" || page.Amount != "20" || page.Fee != 0.91 {
		t.Errorf("the page: got %+v, want one of $20 for account-1 under k1", page)
	}
	wantJSON(t, f.do(http.MethodGet, path+"/"+soldID, "", auth[:2]...), 200, nil)
	wantJSON(t, f.do(http.MethodGet, path+"?limit=1&before="+soldID, "", auth[:2]...), 200, nil)
	wantError(t, f.do(http.MethodGet, path+"/x", "", auth[:2]...), 404, "checkout_not_found")
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"20","account_id":"x"}`, auth...), 400, "invalid_request")
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"20"}`), 401, "missing_api_key")
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"20"}`, "Authorization", "Bearer "+f.key),
		401, "wrong_key_type")
}
