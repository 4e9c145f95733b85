package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/fill"
)

// errPayout is the error of a settled request whose payout is not its counts times its
// rates. It becomes no line, so the difference stays visible.
var errPayout = errors.New("the ledger's payout is not that of its counts and rates")

// SettledRequests asks billing-ledger what it has settled.
type SettledRequests struct {
	accruals billingv1.AccrualServiceClient
	// bad is called for each request that cannot become a line.
	bad func(requestID string, err error)
}

// NewSettledRequests makes a fill.Ledger.
func NewSettledRequests(
	accruals billingv1.AccrualServiceClient, bad func(requestID string, err error),
) *SettledRequests {
	return &SettledRequests{accruals, bad}
}

// Settled implements fill.Ledger.
func (s *SettledRequests) Settled(ctx context.Context, from fill.Cursor, settledFor time.Duration) (fill.Page, error) {
	resp, err := s.accruals.ListSettled(ctx, &billingv1.ListSettledRequest{
		Since: timestamppb.New(from.Since), Watermark: from.Watermark, SettledFor: durationpb.New(settledFor),
	})
	if err != nil {
		return fill.Page{}, err
	}
	page := fill.Page{
		Lines: make([]earning.Line, 0, len(resp.GetSettled())),
		Next:  fill.Cursor{Since: from.Since, Watermark: resp.GetWatermark()}, More: resp.GetMore(),
	}
	for _, m := range resp.GetSettled() {
		line, err := lineFromProto(m)
		if err != nil {
			s.bad(m.GetRequestId(), err)
			if id, err := ids.ParseRequest(m.GetRequestId()); err == nil {
				page.Bad = append(page.Bad, id)
			}
			continue
		}
		page.Lines = append(page.Lines, line)
	}
	return page, nil
}

// lineFromProto computes the payout anew, because a comparison of two sums proves
// something only if they come from two computations.
func lineFromProto(m *billingv1.SettledRequest) (earning.Line, error) {
	request, err := ids.ParseRequest(m.GetRequestId())
	if err != nil {
		return earning.Line{}, fmt.Errorf("request id: %w", err)
	}
	provider, err := ids.ParseProvider(m.GetProviderId())
	if err != nil {
		return earning.Line{}, fmt.Errorf("provider id: %w", err)
	}
	version, err := ids.ParsePriceVersion(m.GetPriceVersionId())
	if err != nil {
		return earning.Line{}, fmt.Errorf("price version id: %w", err)
	}
	line, err := earning.NewLine(earning.Line{
		RequestID: request, ProviderID: provider, PriceVersionID: version,
		ModelID: m.GetModelId(), Attempt: m.GetAttempt(),
		Tokens:         money.Tokens{Prompt: m.GetPromptTokens(), Completion: m.GetCompletionTokens()},
		EvidenceSource: settledBy(m.GetEvidenceSource()), Settled: true,
	}, moneypb.ToRates(m.GetRates()))
	if err == nil && int64(line.Payout) != m.GetPayoutNanoUsd() {
		err = errPayout
	}
	return line, err
}

func settledBy(w eventsv1.EvidenceSource) earning.EvidenceSource {
	switch w {
	case eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB:
		return earning.Hub
	case eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY:
		return earning.Gateway
	case eventsv1.EvidenceSource_EVIDENCE_SOURCE_WORK_RECEIPT:
		return earning.WorkReceipt
	default:
		return ""
	}
}
