package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/user"
)

// Users answers gateways about users.
type Users struct {
	billingv1.UnimplementedUserServiceServer
	Users *user.Users
}

// SignUpUser opens a user and shows its first key this once.
func (s *Users) SignUpUser(
	ctx context.Context, req *billingv1.SignUpUserRequest,
) (*billingv1.SignUpUserResponse, error) {
	in, key, err := s.Users.SignUp(ctx, req.GetEmail(), req.GetPassword(), req.GetDisplayName(), req.GetNetwork())
	if err != nil {
		return nil, err
	}
	return &billingv1.SignUpUserResponse{
		User: userToProto(in.User), Token: in.Token.Reveal(), ExpiresAt: timestamppb.New(in.ExpiresAt), ApiKey: key,
	}, nil
}

// LogInUser gives a token for a password.
func (s *Users) LogInUser(ctx context.Context, req *billingv1.LogInUserRequest) (*billingv1.LogInUserResponse, error) {
	in, err := s.Users.LogIn(ctx, req.GetEmail(), req.GetPassword(), req.GetNetwork())
	if err != nil {
		return nil, err
	}
	return &billingv1.LogInUserResponse{
		User: userToProto(in.User), Token: in.Token.Reveal(), ExpiresAt: timestamppb.New(in.ExpiresAt),
	}, nil
}

// GetUser finds the user of a token.
func (s *Users) GetUser(ctx context.Context, req *billingv1.GetUserRequest) (*billingv1.GetUserResponse, error) {
	if len(req.GetTokenDigest()) != len(user.Digest{}) {
		return nil, malformed("token_digest")
	}
	u, err := s.Users.Whose(ctx, user.Digest(req.GetTokenDigest()))
	if err != nil {
		return nil, err
	}
	return &billingv1.GetUserResponse{User: userToProto(u)}, nil
}

// LinkProvider stores that a user owns a provider account. A malformed user id is not
// found either.
func (s *Users) LinkProvider(
	ctx context.Context, req *billingv1.LinkProviderRequest,
) (*billingv1.LinkProviderResponse, error) {
	id, err := user.ParseID(req.GetUserId())
	if err != nil {
		return nil, user.NotFound()
	}
	provider, err := ids.ParseProvider(req.GetProviderId())
	if err != nil || provider.IsZero() {
		return nil, malformed("provider_id")
	}
	u, err := s.Users.LinkProvider(ctx, id, provider)
	if err != nil {
		return nil, err
	}
	return &billingv1.LinkProviderResponse{User: userToProto(u)}, nil
}

func userToProto(u user.User) *billingv1.User {
	m := &billingv1.User{
		UserId: u.ID.String(), Email: string(u.Email), DisplayName: u.DisplayName,
		AccountId: u.Account.String(), CreatedAt: timestamppb.New(u.CreatedAt), EmailConfirmed: u.Confirmed,
	}
	if !u.Provider.IsZero() {
		m.ProviderId = u.Provider.String()
	}
	return m
}
