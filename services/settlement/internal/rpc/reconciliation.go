// Package rpc answers settlement's gRPC calls.
package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/reconcile"
)

const (
	// defaultDays is how far back a comparison goes unless the caller says otherwise.
	defaultDays = 7
	// maxDays bounds how far back a comparison may go, because both services read all
	// that was earned on each day.
	maxDays = 400
	// maxDifferences bounds what one answer lists.
	maxDifferences = 1000
)

// Comparer compares both sides from a first day on.
type Comparer interface {
	Compare(ctx context.Context, first time.Time) (reconcile.Report, error)
}

// Reconciliation implements ReconciliationService.
type Reconciliation struct {
	settlementv1.UnimplementedReconciliationServiceServer
	comparer Comparer
	clock    clock.Clock
}

// NewReconciliation makes the service.
func NewReconciliation(comparer Comparer, clk clock.Clock) *Reconciliation {
	return &Reconciliation{comparer: comparer, clock: clk}
}

// Reconcile compares now and returns every difference.
func (s *Reconciliation) Reconcile(
	ctx context.Context, req *settlementv1.ReconcileRequest,
) (*settlementv1.ReconcileResponse, error) {
	first, err := firstDay(req.GetFirstDay(), s.clock.Now())
	if err != nil {
		return nil, err
	}
	report, err := s.comparer.Compare(ctx, first)
	if err != nil {
		return nil, err
	}
	return reportToProto(report), nil
}

func firstDay(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return FirstDay(now), nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return time.Time{}, fault.New(fault.Invalid, fault.InvalidValue, "first_day must be a date as YYYY-MM-DD").On(
			"first_day")
	}
	if day.Before(now.UTC().AddDate(0, 0, -maxDays)) {
		return time.Time{}, fault.New(fault.Invalid, fault.InvalidValue, "first_day must lie within the last %d days",
			maxDays).On("first_day")
	}
	return day, nil
}

// FirstDay is the first day of a comparison that is made now and names none.
func FirstDay(now time.Time) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -defaultDays)
}

func reportToProto(r reconcile.Report) *settlementv1.ReconcileResponse {
	resp := &settlementv1.ReconcileResponse{
		Equal: r.Equal(), Compared: int32(r.Compared),
		LinesUsdStr: r.Lines.String(), AccrualsUsdStr: r.Accruals.String(),
		DifferencesTotal: int32(len(r.Differences)), ComparedAt: timestamppb.New(r.ComparedAt),
		Filled: int32(r.Filled.Requests), FilledUsdStr: r.Filled.Payout.String(),
	}
	for _, d := range r.Differences[:min(len(r.Differences), maxDifferences)] {
		resp.Differences = append(resp.Differences, &settlementv1.Difference{
			Day: d.Day.Format(time.DateOnly), ProviderId: d.ProviderID.String(),
			LinesUsdStr: d.Lines.Payout.String(), AccrualsUsdStr: d.Accruals.Payout.String(),
			Lines: int32(d.Lines.Requests), Accruals: int32(d.Accruals.Requests), Filled: int32(d.Filled),
		})
	}
	return resp
}
