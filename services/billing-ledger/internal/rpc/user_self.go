package rpc

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/user"
)

// UserSelf answers users who are signed in. The gateway has found out who they are.
type UserSelf struct {
	billingv1.UnimplementedUserSelfServiceServer
	Users *user.Users
}

// caller returns the user for whom a call is made.
func caller(ctx context.Context) (serve.Caller, user.ID, error) {
	who, ok := serve.User(ctx)
	if !ok {
		return serve.Caller{}, user.ID{}, notSignedIn()
	}
	id, err := user.ParseID(who.User)
	if err != nil {
		return serve.Caller{}, user.ID{}, notSignedIn()
	}
	return who, id, nil
}

func notSignedIn() error {
	return fault.New(fault.Unauthenticated, fault.InvalidSession, "nobody is signed in")
}

// GetMe shows the user.
func (s *UserSelf) GetMe(ctx context.Context, _ *billingv1.GetMeRequest) (*billingv1.GetMeResponse, error) {
	_, id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	u, err := s.Users.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetMeResponse{User: userToProto(u)}, nil
}
