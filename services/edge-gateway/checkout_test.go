package edgegateway

import (
	"context"
	"net/http"
	"strings"
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

// RefundTopUp gives back as much as is asked for, and says under which key.
func (*shop) RefundTopUp(
	ctx context.Context, req *billingv1.RefundTopUpRequest,
) (*billingv1.RefundTopUpResponse, error) {
	key := append(metadata.ValueFromIncomingContext(ctx, "idempotency-key"), "")[0]
	return &billingv1.RefundTopUpResponse{Refund: &billingv1.TopUpRefund{RefundId: key, CheckoutId: req.GetCheckoutId(),
		AmountUsdStr: req.GetAmountUsd(), State: "asked"}}, nil
}

func (*shop) ListTopUpRefunds(
	context.Context, *billingv1.ListTopUpRefundsRequest,
) (*billingv1.ListTopUpRefundsResponse, error) {
	return &billingv1.ListTopUpRefundsResponse{Refunds: []*billingv1.TopUpRefund{{RefundId: "r", State: "by_card"}}}, nil
}

func TestAConsumerAsksForCreditBack(t *testing.T) {
	f := start(t)
	const path = "/api/v1/consumer/checkout/" + soldID + "/refund"
	auth := []string{"Authorization", "Bearer " + sessionToken, "Idempotency-Key", "k1"}
	var answer struct {
		Refund struct {
			ID       string `json:"refund_id"`
			Checkout string `json:"checkout_id"`
			Amount   string `json:"amount_usd_str"`
			State    string
			EndedAt  *string `json:"ended_at"`
		}
	}
	wantJSON(t, f.do(http.MethodPost, path, `{"amount_usd":"7.50"}`, auth...), 200, &answer)
	if r := answer.Refund; r.ID != "k1" || r.Checkout != soldID || r.Amount != "7.50" || r.State != "asked" ||
		r.EndedAt != nil {
		t.Errorf("the refund: got %+v, want one of $7.50 under k1 that is asked for", r)
	}
	wantJSON(t, f.do(http.MethodPost, path, `{}`, auth...), 200, nil)
	wantJSON(t, f.do(http.MethodGet, "/api/v1/consumer/refunds?limit=1", "", auth[:2]...), 200, nil)
	wantError(t, f.do(http.MethodGet, path, "", auth...), 405, "method_not_allowed")
	wantError(t, f.do(http.MethodPost, path, `{}`), 401, "missing_api_key")
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
	for body, want := range map[string]string{
		`{"amount_usd":20}`:                    "amount_usd must be a string in quotation marks",
		`{"amount_usd":"20","account_id":"x"}`: "account_id is not a field of this request",
		`{"amount_usd":"20","amount_usd":"5"}`: "amount_usd must be given once",
	} {
		field, _, _ := strings.Cut(want, " ")
		resp := f.do(http.MethodPost, path, body, auth...)
		got := read(t, resp)
		if resp.StatusCode != 400 || !strings.Contains(got, want) || !strings.Contains(got, `"param":"`+field+`"`) ||
			strings.Contains(got, "proto") {
			t.Errorf("%s: got %d %s, want 400 with %q of %s", body, resp.StatusCode, got, want, field)
		}
	}
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"20"}`), 401, "missing_api_key")
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"20"}`, "Authorization", "Bearer "+f.key),
		401, "wrong_key_type")
}
