package edgegateway

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// keptCollateral is a settlement that keeps providerA's collateral.
type keptCollateral struct {
	settlementv1.UnimplementedCollateralServiceServer
	mu       sync.Mutex
	away     bool
	asked    int
	prepared *settlementv1.PrepareDepositRequest
}

func (k *keptCollateral) GetContracts(
	context.Context, *settlementv1.GetContractsRequest,
) (*settlementv1.GetContractsResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.away {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	}
	return &settlementv1.GetContractsResponse{Card: &settlementv1.CardTerms{Available: true,
		MinimumNanoUsd: 20_000_000_000, SettlementChainId: 8453},
		Contracts: []*settlementv1.CollateralContract{{ChainId: 254, ChainName: "Two", ContractAddress: "0x1",
			TokenSymbol: "N", TokenDecimals: 18, Minimum: "35000000000000000000000", RpcUrl: "https://rpc.example"}}}, nil
}

func (k *keptCollateral) GetCollateral(
	_ context.Context, req *settlementv1.GetCollateralRequest,
) (*settlementv1.GetCollateralResponse, error) {
	return &settlementv1.GetCollateralResponse{Collateral: &settlementv1.ProviderCollateral{
		ProviderId: req.GetProviderId(), Confirmed: true, Source: "contract", SettlementChainId: 8453,
		Chains: []*settlementv1.ChainCollateral{{ChainId: 8453, TokenSymbol: "USDC", TokenDecimals: 6, Free: "25500000",
			Escrow: "1", Minimum: "20000000", Confirmed: true, Leaving: "25500000", Missing: "0"}},
		Card: &settlementv1.CardCollateral{FreeNanoUsd: 1_000_000_000, MinimumNanoUsd: 20_000_000_000,
			MissingNanoUsd: 19_000_000_000, LeavingNanoUsd: 2_000_000_000, OwedNanoUsd: 3_000_000_000},
		Refund: &settlementv1.CollateralRefund{RefundId: "r", State: settlementv1.RefundState_REFUND_STATE_ASKED},
		Refunds: []*settlementv1.CollateralRefund{{RefundId: "p", State: settlementv1.RefundState_REFUND_STATE_PAID,
			EndedAt: timestamppb.New(time.Unix(1_800_000_000, 0)), Parts: []*settlementv1.RefundPart{
				{ChainId: 8453, Depositor: "0xd", State: "done", PaidBy: "chain", TransactionHash: "0xt", Amount: "1500000"},
				{CheckoutId: "c", AmountCents: 2000, State: "done", PaidBy: "card", Attempt: 2}}}},
		Causes: []string{"refund"}}}, nil
}

func (k *keptCollateral) PrepareDeposit(
	_ context.Context, req *settlementv1.PrepareDepositRequest,
) (*settlementv1.PrepareDepositResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prepared = req
	if req.GetCard() != nil {
		return &settlementv1.PrepareDepositResponse{How: &settlementv1.PrepareDepositResponse_Page{
			Page: &settlementv1.DepositPage{CheckoutId: "c", Url: "https://pay.example", AmountCents: 2_050}}}, nil
	}
	return &settlementv1.PrepareDepositResponse{How: &settlementv1.PrepareDepositResponse_Call{
		Call: &settlementv1.DepositCall{
			ContractAddress: "0x1", Provider: []byte{1, 2}, Calldata: []byte{3}, Value: "5",
		}}}, nil
}

func (k *keptCollateral) RequestRefund(
	context.Context, *settlementv1.RequestRefundRequest,
) (*settlementv1.RequestRefundResponse, error) {
	return nil, fault.New(fault.Precondition, fault.RefundBlocked, "a penalty is open")
}

func (k *keptCollateral) CancelRefund(
	context.Context, *settlementv1.CancelRefundRequest,
) (*settlementv1.CancelRefundResponse, error) {
	return &settlementv1.CancelRefundResponse{Refund: &settlementv1.CollateralRefund{RefundId: "r",
		State: settlementv1.RefundState_REFUND_STATE_CANCELLED}}, nil
}

const contractPath = "/api/v1/provider/collateral/contract"

func TestWhereCollateralIsTakenIsAskedOfSettlementOnceAMinute(t *testing.T) {
	f := start(t)
	const want = `{"code":0,"msg":"success","data":{"chains":[{"chain_id":254,"chain_name":"Two",` +
		`"contract_address":"0x1","token_address":"","token_symbol":"N","token_decimals":18,"min_collateral":35000,` +
		`"rpc_url":"https://rpc.example","explorer_url":"","faucet_url":""}],` +
		`"card":{"available":true,"currency":"USD","min_collateral":20,"settlement_chain_id":8453}}}`
	for range 3 {
		if got := wantJSON(t, f.do(http.MethodGet, contractPath, ""), 200, nil); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if f.collateral.asked != 1 {
		t.Errorf("settlement was asked %d times, want once", f.collateral.asked)
	}
}

func TestWithoutSettlementNobodyIsToldWhereCollateralIsTaken(t *testing.T) {
	f := start(t)
	f.collateral.mu.Lock()
	f.collateral.away = true
	f.collateral.mu.Unlock()
	wantError(t, f.do(http.MethodGet, contractPath, ""), 503, "service_unavailable")
}

func TestAProviderReadsWhatStandsBehindIt(t *testing.T) {
	f := start(t)
	const want = `{"has_collateral":true,"required":true,"amount_required":20,"collateral":26.5,"source":"contract",` +
		`"settlement_chain_id":8453,"chosen_chain_id":0,"chains":[{"chain_id":8453,"token_symbol":"USDC","free":"25.5",` +
		`"escrow":"0.000001","minimum":"20","confirmed":true,"leaving":"25.5","missing":"0",` +
		`"positions":[]}],"card":{"available":false,` +
		`"free_usd_str":"1.00","escrow_usd_str":"0.00","minimum_usd_str":"20.00","confirmed":false,"reversed":false,` +
		`"leaving_usd_str":"2.00","missing_usd_str":"19.00","owed_usd_str":"3.00"},` +
		`"refund":{"refund_id":"r","state":"asked","asked_at":null,"due_at":null,"ended_at":null,"parts":[]},` +
		`"refunds":[{"refund_id":"p","state":"paid","asked_at":null,"due_at":null,"ended_at":"2027-01-15T08:00:00Z",` +
		`"parts":[{"chain_id":8453,"depositor":"0xd","checkout_id":"","amount_cents":0,"state":"done","paid_by":"chain",` +
		`"tx_hash":"0xt","amount":"1.5","attempt":0},{"chain_id":0,"depositor":"","checkout_id":"c","amount_cents":2000,` +
		`"state":"done","paid_by":"card","tx_hash":"","amount":"","attempt":2}]}],` +
		`"suspensions":["refund"]}`
	resp := f.do(http.MethodGet, "/api/v1/provider/collateral", "", f.asProvider()...)
	if got := wantJSON(t, resp, 200, nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestADepositIsPreparedForItsOwner(t *testing.T) {
	f := start(t)
	f.people.provider = providerA
	path := "/api/v1/provider/collateral/deposit"
	auth := []string{"Authorization", "Bearer " + sessionToken, "Idempotency-Key", "k1"}
	const call = `{"chain_id":254,"contract":"0x1","provider_bytes32":"0x0102","calldata":"0x03","value":"5",` +
		`"token_address":"","approve_calldata":""}`
	if got := wantJSON(t, f.do(http.MethodPost, path, `{"chain_id":254,"amount":"1.5"}`, auth...), 200, nil); got != call {
		t.Errorf("got %s, want %s", got, call)
	}
	if got := f.collateral.prepared.GetChain().GetAmount(); got != "1500000000000000000" {
		t.Errorf("amount: got %s, want 1.5 tokens in their smallest unit", got)
	}
	wantJSON(t, f.do(http.MethodPost, path, `{"card":true,"amount_usd":"20.50"}`, auth...), 200, nil)
	if got := f.collateral.prepared.GetCard().GetAmountCents(); got != 2_050 {
		t.Errorf("by card: got %d cents, want 2050", got)
	}
	if got := f.collateral.prepared.GetIdempotencyKey(); got != "k1" {
		t.Errorf("by card: got the key %q, want k1", got)
	}
	for body, why := range map[string]string{
		`{"chain_id":1}`:                                    "a chain that takes none",
		`{"chain_id":254,"amount":"x"}`:                     "no amount",
		`{"chain_id":254,"amount":"1e18"}`:                  "an exponent",
		`{"chain_id":254,"amount":"0.0000000000000000001"}`: "too many decimals",
		`{"amount_usd":"20.505"}`:                           "half a cent",
		`{"amount_usd":"99999999"}`:                         "more than a card pays",
		`{}`:                                                "nothing",
	} {
		if resp := f.do(http.MethodPost, path, body, auth...); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got the status %d, want 400", why, resp.StatusCode)
		}
	}
	wantError(t, f.do(http.MethodPost, path, `{"chain_id":254}`, f.asProvider()...), 403, "owner_required")
}

func TestARefundIsAskedForAndTakenBackByTheOwner(t *testing.T) {
	f := start(t)
	f.people.provider = providerA
	path := "/api/v1/provider/collateral/refund"
	auth := []string{"Authorization", "Bearer " + sessionToken, "Idempotency-Key", "k1"}
	wantError(t, f.do(http.MethodPost, path, `{}`, auth...), 409, "refund_blocked")
	wantError(t, f.do(http.MethodPost, path, `{}`, auth[:2]...), 400, "idempotency_key_missing")
	const want = `{"refund_id":"r","state":"cancelled","asked_at":null,"due_at":null,"ended_at":null,"parts":[]}`
	if got := wantJSON(t, f.do(http.MethodDelete, path, "", auth[:2]...), 200, nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantError(t, f.do(http.MethodPost, path, `{}`, f.asProvider()...), 403, "owner_required")
}
