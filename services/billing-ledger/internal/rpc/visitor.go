package rpc

import (
	"context"
	"crypto/sha256"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/playground"
)

// Visits answers gateways that serve visitors without a key.
type Visits struct {
	billingv1.UnimplementedVisitorServiceServer
	Visitors *playground.Visitors
}

// OpenVisitorSession gives a visitor a session.
func (s *Visits) OpenVisitorSession(
	ctx context.Context, req *billingv1.OpenVisitorSessionRequest,
) (*billingv1.OpenVisitorSessionResponse, error) {
	v, err := visitFromProto(req)
	if err != nil {
		return nil, err
	}
	session := playground.Session{Network: v.Address}
	if session.Secret, err = secretFromProto(req.GetSessionSha256(), "session_sha256"); err != nil {
		return nil, err
	}
	if len(req.GetHeldSessionSha256()) > 0 {
		session.Held, err = secretFromProto(req.GetHeldSessionSha256(), "held_session_sha256")
		if err != nil {
			return nil, err
		}
	}
	if session.Wider, err = widerFromProto(req); err != nil {
		return nil, err
	}
	opened, left, err := s.Visitors.Open(ctx, session, v)
	if err != nil {
		return nil, err
	}
	return &billingv1.OpenVisitorSessionResponse{
		Opened: opened.New, ExpiresAt: timestamppb.New(opened.ExpiresAt),
		Remaining: int32(left.Remaining), ResetMs: left.Reset.Milliseconds(),
	}, nil
}

// TakeVisit takes one of the visits of an address.
func (s *Visits) TakeVisit(ctx context.Context, req *billingv1.TakeVisitRequest) (*billingv1.TakeVisitResponse, error) {
	v, err := visitFromProto(req)
	if err != nil {
		return nil, err
	}
	if len(req.GetSessionSha256()) == 0 {
		left, err := s.Visitors.Visits.Take(ctx, v)
		if err != nil {
			return nil, err
		}
		return &billingv1.TakeVisitResponse{Remaining: int32(left.Remaining), ResetMs: left.Reset.Milliseconds()}, nil
	}
	secret, err := secretFromProto(req.GetSessionSha256(), "session_sha256")
	if err != nil {
		return nil, err
	}
	wider, err := widerFromProto(req)
	if err != nil {
		return nil, err
	}
	payer, left, err := s.Visitors.Visit(ctx, secret, v, wider)
	if err != nil {
		return nil, err
	}
	return &billingv1.TakeVisitResponse{
		Remaining: int32(left.Remaining), ResetMs: left.Reset.Milliseconds(), AccountId: payer.Account.String(),
		KeyId: payer.Key.String(), AccountTag: s.Visitors.Keys.AccountTag(payer.Account),
	}, nil
}

// visited is what requests say of the visits of an address.
type visited interface {
	GetAddress() []byte
	GetLimit() int32
	GetWindowMs() int64
}

func visitFromProto(req visited) (v limit.Visit, err error) {
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

// widerFromProto returns the address of the wider network; zero for none.
func widerFromProto(req interface{ GetWiderAddress() []byte }) (wider limit.Address, err error) {
	if n := len(req.GetWiderAddress()); n != 0 && n != len(wider) {
		return wider, malformed("wider_address")
	}
	copy(wider[:], req.GetWiderAddress())
	return wider, nil
}

func secretFromProto(sum []byte, field string) (secret playground.Secret, err error) {
	if len(sum) != sha256.Size {
		return secret, malformed(field)
	}
	return playground.Secret(sum), nil
}
