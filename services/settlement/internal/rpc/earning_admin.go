package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/printable"
)

// maxBlocks bounds the blocks of an answer, and maxReason an operator's reason in characters.
const maxBlocks, maxReason = 1_000, 500

// BatchAdminStore is what operators see and decide of batches.
type BatchAdminStore interface {
	Days(ctx context.Context, before time.Time, limit int) ([]batch.DayView, error)
	Blocks(ctx context.Context, limit int) ([]batch.Block, error)
	Allow(ctx context.Context, day time.Time, reason string) error
	Unblock(ctx context.Context, provider ids.ProviderID, reason string) (int64, error)
}

// EarningAdmin implements EarningAdminService. The tables of decisions name the operator who decided.
type EarningAdmin struct {
	settlementv1.UnimplementedEarningAdminServiceServer
	Store BatchAdminStore
}

// ListBatches is one page of the days that are collected, newest first.
func (s *EarningAdmin) ListBatches(
	ctx context.Context, req *settlementv1.ListBatchesRequest,
) (*settlementv1.ListBatchesResponse, error) {
	before, size, err := pageOfDays(req.GetBefore(), req.GetPageSize())
	if err != nil {
		return nil, err
	}
	days, err := s.Store.Days(ctx, before, size+1)
	if err != nil {
		return nil, err
	}
	resp := &settlementv1.ListBatchesResponse{}
	if len(days) > size {
		days = days[:size]
		resp.NextBefore = days[size-1].Day.Format(time.DateOnly)
	}
	for _, d := range days {
		resp.List = append(resp.List, dayToProto(d))
	}
	return resp, nil
}

func dayToProto(d batch.DayView) *settlementv1.BatchDay {
	m := &settlementv1.BatchDay{Day: d.Day.Format(time.DateOnly), State: "waiting", Lines: d.Lines, Filled: d.Filled,
		CollectedAt: moment(d.CollectedAt), CommittedAt: moment(d.CommittedAt)}
	if !d.CommittedAt.IsZero() {
		m.State = "committed"
	}
	for _, b := range d.Batches {
		m.Batches = append(m.Batches, &settlementv1.ChainBatch{ChainId: b.Chain, Root: b.Root.String(),
			TotalUsdStr: b.Total.String(), Shares: b.Shares, Unposted: b.Unposted, Unsigned: b.Unsigned})
	}
	return m
}

// AllowDay lets a day go.
func (s *EarningAdmin) AllowDay(
	ctx context.Context, req *settlementv1.AllowDayRequest,
) (*settlementv1.AllowDayResponse, error) {
	day, err := dayFromProto("day", req.GetDay())
	if err != nil {
		return nil, err
	}
	if err := checkReason(req.GetReason()); err != nil {
		return nil, err
	}
	by := actor.WithOperator(ctx, serve.Operator(ctx))
	return &settlementv1.AllowDayResponse{}, s.Store.Allow(by, day, req.GetReason())
}

// ListBlocks lists providers that a witness contradicts.
func (s *EarningAdmin) ListBlocks(
	ctx context.Context, _ *settlementv1.ListBlocksRequest,
) (*settlementv1.ListBlocksResponse, error) {
	blocks, err := s.Store.Blocks(ctx, maxBlocks)
	if err != nil {
		return nil, err
	}
	resp := &settlementv1.ListBlocksResponse{}
	for _, b := range blocks {
		resp.List = append(resp.List, &settlementv1.Block{Day: b.Day.Format(time.DateOnly),
			ProviderId: b.Provider.String(), Cause: string(b.Cause), Differences: b.Count, At: timestamppb.New(b.At)})
	}
	return resp, nil
}

// UnblockProvider lifts every block of a provider.
func (s *EarningAdmin) UnblockProvider(
	ctx context.Context, req *settlementv1.UnblockProviderRequest,
) (*settlementv1.UnblockProviderResponse, error) {
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	if err := checkReason(req.GetReason()); err != nil {
		return nil, err
	}
	by := actor.WithOperator(ctx, serve.Operator(ctx))
	lifted, err := s.Store.Unblock(by, provider, req.GetReason())
	if err != nil {
		return nil, err
	}
	return &settlementv1.UnblockProviderResponse{Lifted: lifted}, nil
}

func checkReason(text string) error { return checkText("reason", text, maxReason) }

// checkText requires 1 to limit printable characters.
func checkText(field, text string, limit int) error {
	if !printable.Within(text, limit) {
		return fault.New(fault.Invalid, fault.InvalidValue, "%s must be 1 to %d printable characters", field, limit).On(field)
	}
	return nil
}
