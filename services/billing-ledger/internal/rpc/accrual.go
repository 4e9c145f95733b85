package rpc

import (
	"context"
	"time"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/accrual"
)

// Accruals answers settlement.
type Accruals struct {
	billingv1.UnimplementedAccrualServiceServer
	Store accrual.Store
}

// ListAccruals sums what providers were credited.
func (s *Accruals) ListAccruals(ctx context.Context, req *billingv1.ListAccrualsRequest) (*billingv1.ListAccrualsResponse, error) {
	rows, next, err := accrual.List(ctx, s.Store, req.GetFirstDay(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListAccrualsResponse{NextPageToken: next, Accruals: make([]*billingv1.Accrual, len(rows))}
	for i, r := range rows {
		m.Accruals[i] = &billingv1.Accrual{
			Day: r.Day.Format(time.DateOnly), ProviderId: r.Provider.String(),
			PayoutNanoUsd: int64(r.Payout), Requests: r.Requests,
		}
	}
	return m, nil
}
