package edgegateway

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// paid is a settlement that knows one payout of providerA.
type paid struct {
	settlementv1.UnimplementedPayoutServiceServer
}

func (paid) ListPayouts(
	_ context.Context, req *settlementv1.ListPayoutsRequest,
) (*settlementv1.ListPayoutsResponse, error) {
	if req.GetProviderId() != providerA {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "another provider").On("provider_id")
	}
	return &settlementv1.ListPayoutsResponse{Total: 1, Page: 1, PageSize: 20, List: []*settlementv1.Payout{
		{PayoutId: "p", State: settlementv1.PayoutState_PAYOUT_STATE_CONFIRMED, ChainId: 8453, GrossUsdStr: "12.50",
			FeeUsdStr: "1.00", NetUsdStr: "11.50", Address: "0x1", Amount: "11500000", TxHash: "0x2", ApprovalsGiven: 1,
			ApprovalsNeeded: new(int32(1)), Approvals: []*settlementv1.PayoutApproval{{Operator: "operator:ann@1"}}},
	}, Terms: &settlementv1.PayoutTerms{MinimumUsdStr: "10.00", MaximumUsdStr: "1000000.00", IntervalSeconds: 3600,
		AloneUsdStr: "1000.00", OneOperatorUsdStr: "10000.00",
		Chains: []*settlementv1.PayoutChain{{ChainId: 8453, TokenSymbol: "USDC", FeeUsdStr: "1.00"}},
		NextAt: &timestamppb.Timestamp{Seconds: 1_800_000_000}}}, nil
}

func TestAProviderReadsItsPayouts(t *testing.T) {
	f := start(t)
	const want = `{"list":[{"payout_id":"p","state":"confirmed","chain_id":8453,"gross_usd_str":"12.50",` +
		`"fee_usd_str":"1.00","net_usd_str":"11.50","address":"0x1","amount":"11500000","rate_usd_str":"",` +
		`"tx_hash":"0x2","reason":"","waiting":"","ending":false,"approvals_given":1,"approvals_needed":1,` +
		`"requested_at":null,"changed_at":null}],"total":1,"page":1,"page_size":20,` +
		`"terms":{"minimum_usd_str":"10.00","maximum_usd_str":"1000000.00",` +
		`"chains":[{"chain_id":8453,"token_symbol":"USDC","fee_usd_str":"1.00"}],"interval_seconds":3600,` +
		`"next_at":"2027-01-15T08:00:00Z","alone_usd_str":"1000.00",` +
		`"one_operator_usd_str":"10000.00"}}`
	resp := f.do(http.MethodGet, "/api/v1/provider/payouts", "", f.asProvider()...)
	if got := wantJSON(t, resp, 200, nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantError(t, f.do(http.MethodGet, "/api/v1/provider/payouts", ""), 401, "missing_api_key")
}
