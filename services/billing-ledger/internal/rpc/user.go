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
	// Playground reports whether there is a budget for visitors without a key.
	Playground bool
}

// SignUpUser opens a user and shows its first key this once.
func (s *Users) SignUpUser(
	ctx context.Context, req *billingv1.SignUpUserRequest,
) (*billingv1.SignUpUserResponse, error) {
	in, key, err := s.Users.SignUp(ctx, req.GetEmail(), req.GetPassword(), req.GetDisplayName(), user.From{
		Network: req.GetNetwork(), Shown: req.GetNetworkShown(), Remember: req.GetRemember(),
	})
	if err != nil {
		return nil, err
	}
	return &billingv1.SignUpUserResponse{
		User: userToProto(in.User), Token: in.Token.Reveal(), ExpiresAt: timestamppb.New(in.ExpiresAt), ApiKey: key,
		RefreshToken: in.Refresh.Reveal(), RefreshExpiresAt: timestamp(in.RefreshExpiresAt),
	}, nil
}

// LogInUser gives a token for a password.
func (s *Users) LogInUser(ctx context.Context, req *billingv1.LogInUserRequest) (*billingv1.LogInUserResponse, error) {
	in, err := s.Users.LogIn(ctx, req.GetEmail(), req.GetPassword(), user.From{
		Network: req.GetNetwork(), Shown: req.GetNetworkShown(), Remember: req.GetRemember(),
	})
	if err != nil {
		return nil, err
	}
	return &billingv1.LogInUserResponse{
		User: userToProto(in.User), Token: in.Token.Reveal(), ExpiresAt: timestamppb.New(in.ExpiresAt),
		RefreshToken: in.Refresh.Reveal(), RefreshExpiresAt: timestamp(in.RefreshExpiresAt),
	}, nil
}

// RefreshSession gives a token for a refresh token.
func (s *Users) RefreshSession(
	ctx context.Context, req *billingv1.RefreshSessionRequest,
) (*billingv1.RefreshSessionResponse, error) {
	in, err := s.Users.Refresh(ctx, req.GetRefreshToken(), req.GetNetworkShown())
	if err != nil {
		return nil, err
	}
	return &billingv1.RefreshSessionResponse{
		User: userToProto(in.User), Token: in.Token.Reveal(), ExpiresAt: timestamppb.New(in.ExpiresAt),
		RefreshToken: in.Refresh.Reveal(), RefreshExpiresAt: timestamp(in.RefreshExpiresAt),
	}, nil
}

// EndSession signs a user out.
func (s *Users) EndSession(
	ctx context.Context, req *billingv1.EndSessionRequest,
) (*billingv1.EndSessionResponse, error) {
	digest, refresh := req.GetTokenDigest(), false
	if len(req.GetRefreshDigest()) > 0 {
		digest, refresh = req.GetRefreshDigest(), true
	}
	if len(digest) != len(user.Digest{}) {
		return nil, malformed("token_digest")
	}
	if err := s.Users.LogOut(ctx, user.Digest(digest), refresh, req.GetEverywhere()); err != nil {
		return nil, err
	}
	return &billingv1.EndSessionResponse{}, nil
}

// AskPasswordReset has a letter sent.
func (s *Users) AskPasswordReset(
	ctx context.Context, req *billingv1.AskPasswordResetRequest,
) (*billingv1.AskPasswordResetResponse, error) {
	if err := s.Users.AskReset(ctx, req.GetEmail()); err != nil {
		return nil, err
	}
	return &billingv1.AskPasswordResetResponse{}, nil
}

// ResetPassword sets a password by the token of a letter.
func (s *Users) ResetPassword(
	ctx context.Context, req *billingv1.ResetPasswordRequest,
) (*billingv1.ResetPasswordResponse, error) {
	if err := s.Users.ResetPassword(ctx, req.GetToken(), req.GetNewPassword(), req.GetNetwork()); err != nil {
		return nil, err
	}
	return &billingv1.ResetPasswordResponse{}, nil
}

// ConfirmEmail confirms an e-mail by the token of a letter.
func (s *Users) ConfirmEmail(
	ctx context.Context, req *billingv1.ConfirmEmailRequest,
) (*billingv1.ConfirmEmailResponse, error) {
	if err := s.Users.ConfirmEmail(ctx, req.GetToken()); err != nil {
		return nil, err
	}
	return &billingv1.ConfirmEmailResponse{}, nil
}

// GetUser finds the user of a token.
func (s *Users) GetUser(ctx context.Context, req *billingv1.GetUserRequest) (*billingv1.GetUserResponse, error) {
	if len(req.GetTokenDigest()) != len(user.Digest{}) {
		return nil, malformed("token_digest")
	}
	u, in, err := s.Users.Whose(ctx, user.Digest(req.GetTokenDigest()))
	if err != nil {
		return nil, err
	}
	return &billingv1.GetUserResponse{User: userToProto(u), SessionId: familyText(in.Family),
		FreshUntil: timestamppb.New(in.FreshUntil)}, nil
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

// familyText returns the id of a family; empty for none.
func familyText(id user.FamilyID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
