package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// ListPayouts lists payouts as the books have them.
func (s *Accruals) ListPayouts(
	ctx context.Context, req *billingv1.ListPayoutsRequest,
) (*billingv1.ListPayoutsResponse, error) {
	rows, next, err := earning.ListPayouts(ctx, s.Store, req.GetSince().AsTime(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListPayoutsResponse{NextPageToken: next, Payouts: make([]*billingv1.BookedPayout, len(rows))}
	for i, r := range rows {
		p := &billingv1.BookedPayout{PayoutId: r.ID, ProviderId: r.Provider.String(), AmountNanoUsd: int64(r.Amount),
			EntryId: r.Entry.String(), At: timestamppb.New(r.At), Token: string(r.Sum.Token), Units: int64(r.Sum.Units)}
		switch r.End {
		case ledger.PayoutConfirmed:
			p.End = billingv1.BookedPayout_END_CONFIRMED
		case ledger.PayoutFailed:
			p.End = billingv1.BookedPayout_END_FAILED
		default: // its money is in flight
			p.End = billingv1.BookedPayout_END_UNSPECIFIED
		}
		if q := r.Sum.Quote; q != nil {
			p.RateNanoUsd, p.RateSource, p.RateAt = int64(q.Rate), q.Source, timestamppb.New(q.At)
		}
		m.Payouts[i] = p
	}
	return m, nil
}
