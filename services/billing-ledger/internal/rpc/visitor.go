package rpc

import (
	"context"
	"time"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Visits answers gateways that serve visitors without a key.
type Visits struct {
	billingv1.UnimplementedVisitorServiceServer
	Visitors *limit.Visitors
}

// TakeVisit takes one of the visits of an address.
func (s *Visits) TakeVisit(ctx context.Context, req *billingv1.TakeVisitRequest) (*billingv1.TakeVisitResponse, error) {
	v, err := visitFromProto(req)
	if err != nil {
		return nil, err
	}
	left, err := s.Visitors.Take(ctx, v)
	if err != nil {
		return nil, err
	}
	return &billingv1.TakeVisitResponse{Remaining: int32(left.Remaining), ResetMs: left.Reset.Milliseconds()}, nil
}

func visitFromProto(req *billingv1.TakeVisitRequest) (v limit.Visit, err error) {
	if len(req.GetAddress()) != len(v.Address) {
		return v, malformed("address")
	}
	copy(v.Address[:], req.GetAddress())
	v.Limit = int(req.GetLimit())
	if ms := req.GetWindowMs(); ms > 0 && ms <= limit.MaxVisitWindow.Milliseconds() {
		v.Window = time.Duration(ms) * time.Millisecond
	}
	return v, nil
}
