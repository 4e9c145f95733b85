package rpc

import (
	"context"
	"math"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/modeword"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/receipt"
)

// Receipts answers consumers by way of the gateway.
type Receipts struct {
	billingv1.UnimplementedReceiptServiceServer
	Store receipt.Store
	Clock clock.Clock
}

// GetReceipt reads one request of one account. Malformed ids are as unknown as any other.
func (s *Receipts) GetReceipt(
	ctx context.Context, req *billingv1.GetReceiptRequest,
) (*billingv1.GetReceiptResponse, error) {
	request, err := ids.ParseRequest(req.GetRequestId())
	if err != nil {
		return nil, receipt.NotFound()
	}
	account, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, receipt.NotFound()
	}
	r, err := receipt.Get(ctx, s.Store, s.Clock, request, account)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetReceiptResponse{Receipt: receiptToProto(r)}, nil
}

func receiptToProto(r *receipt.Receipt) *billingv1.Receipt {
	m := &billingv1.Receipt{
		RequestId: r.Request.String(), Model: r.Model, Status: string(r.State), BillingType: string(r.Billing),
		CostUsdStr: "0.00", DiscountUsdStr: "0.00", PriceVersionId: r.Price.String(),
		InputPriceStr: r.Rates.Unit.Price(r.Rates.Input), OutputPriceStr: r.Rates.Unit.Price(r.Rates.Output),
		PricingUnit: r.Rates.Unit.String(),
		RouteMode:   "auto", AdmittedAt: timestamppb.New(r.AdmittedAt),
	}
	if r.Pinned {
		m.RouteMode = "explicit"
	}
	if r.Report != nil {
		addReport(m, r.Report)
	}
	if r.Usage != nil {
		addUsage(m, r.Usage, r.Rates.Unit)
		m.ProviderName = r.ProviderName()
	}
	return m
}

func addReport(m *billingv1.Receipt, w *hold.RequestReport) {
	m.HttpStatus, m.ErrorCode, m.Stream = w.HTTPStatus, w.ErrorCode, w.Stream
	m.FirstContentMs, m.TotalMs = narrow(w.FirstContentMS), narrow(w.TotalMS)
	m.RequestedProvider, m.FallbackReason = w.RequestedProvider, w.FallbackReason
	if !w.ContinuedAs.IsZero() {
		m.ContinuedAs = w.ContinuedAs.String()
	}
	for _, a := range w.Attempts {
		m.Attempts = append(m.Attempts, &billingv1.ReceiptAttempt{
			Attempt: a.Attempt, ProviderId: a.ProviderID, ProviderName: a.ProviderName,
			Result: a.Result, EngineStatus: a.EngineStatus, LatencyMs: narrow(a.LatencyMS),
		})
	}
}

// addUsage runs after addReport, because the settled usage has the last word on the
// route.
func addUsage(m *billingv1.Receipt, u *receipt.Usage, unit money.Unit) {
	m.CostUsd, m.CostUsdStr = u.Charged.Float(), u.Charged.String()
	m.DiscountUsd, m.DiscountUsdStr = u.Discount.Float(), u.Discount.String()
	addCounts(m, u, unit)
	m.ProviderId, m.Ending = u.Provider.String(), u.Ending
	m.ConnectionMode = modeword.Of(eventsv1.ConnectionMode(u.Mode))
	if u.RouteMode != "" {
		m.RouteMode, m.RequestedProvider, m.FallbackReason = u.RouteMode, u.RequestedProvider, u.FallbackReason
	}
	if m.FirstContentMs == 0 {
		m.FirstContentMs = narrow(u.FirstContentMS)
	}
	m.SettledAt = timestamppb.New(u.SettledAt)
}

// addCounts adds the billable counts under the name of their unit: only tokens are shown
// as tokens.
func addCounts(m *billingv1.Receipt, u *receipt.Usage, unit money.Unit) {
	if unit != money.Token {
		m.Images = narrow(unit.Images(u.Billable))
		m.AudioSeconds = float64(unit.AudioMS(u.Billable)) / 1000
		return
	}
	m.PromptTokens, m.CompletionTokens = narrow(u.Billable.Prompt), narrow(u.Billable.Completion)
	m.ClaimedPromptTokens, m.ClaimedCompletionTokens = narrow(u.Claimed.Prompt), narrow(u.Claimed.Completion)
	m.RecountedCompletionTokens = narrow(u.RecountedCompletion)
}

// narrow fits a count into the 32 bits of the public API.
func narrow(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
