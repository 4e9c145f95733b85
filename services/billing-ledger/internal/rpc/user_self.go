package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

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

// ListSessions lists the user's sessions.
func (s *UserSelf) ListSessions(
	ctx context.Context, _ *billingv1.ListSessionsRequest,
) (*billingv1.ListSessionsResponse, error) {
	who, id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	families, err := s.Users.ListFamilies(ctx, id)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListSessionsResponse{}
	for _, f := range families {
		resp.Sessions = append(resp.Sessions, &billingv1.UserSession{
			SessionId: f.ID.String(), Current: f.ID.String() == who.Session, Remembered: f.Remembered, Network: f.Network,
			CreatedAt: timestamppb.New(f.CreatedAt), UsedAt: timestamppb.New(f.UsedAt), ExpiresAt: timestamppb.New(f.ExpiresAt),
		})
	}
	return resp, nil
}

// DeleteSession ends one of the user's sessions. A malformed id is not found either.
func (s *UserSelf) DeleteSession(
	ctx context.Context, req *billingv1.DeleteSessionRequest,
) (*billingv1.DeleteSessionResponse, error) {
	_, id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	family, err := user.ParseFamily(req.GetSessionId())
	if err != nil {
		family = user.FamilyID{}
	}
	if err := s.Users.EndFamily(ctx, id, family); err != nil {
		return nil, err
	}
	return &billingv1.DeleteSessionResponse{}, nil
}

// ChangePassword sets another password.
func (s *UserSelf) ChangePassword(
	ctx context.Context, req *billingv1.ChangePasswordRequest,
) (*billingv1.ChangePasswordResponse, error) {
	who, id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	keep, err := user.ParseFamily(who.Session)
	if err != nil {
		return nil, notSignedIn()
	}
	err = s.Users.ChangePassword(ctx, id, keep, req.GetCurrentPassword(), req.GetNewPassword(), who.Network)
	if err != nil {
		return nil, err
	}
	return &billingv1.ChangePasswordResponse{}, nil
}

// AskEmailConfirmation has a letter sent.
func (s *UserSelf) AskEmailConfirmation(
	ctx context.Context, _ *billingv1.AskEmailConfirmationRequest,
) (*billingv1.AskEmailConfirmationResponse, error) {
	_, id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Users.AskConfirm(ctx, id); err != nil {
		return nil, err
	}
	return &billingv1.AskEmailConfirmationResponse{}, nil
}
