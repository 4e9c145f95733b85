package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/oidc"
	"svc.internal/services/billing-ledger/internal/user"
)

// StartOpenID begins a sign-in at an OpenID provider.
func (s *Users) StartOpenID(
	ctx context.Context, req *billingv1.StartOpenIDRequest,
) (*billingv1.StartOpenIDResponse, error) {
	started, err := s.Users.StartOpenID(ctx, req.GetIssuer())
	if err != nil {
		return nil, err
	}
	return &billingv1.StartOpenIDResponse{Url: started.URL, Flow: started.Flow,
		EndsAt: timestamppb.New(started.EndsAt)}, nil
}

// LogInOpenID gives a token for the word of an OpenID provider.
func (s *Users) LogInOpenID(
	ctx context.Context, req *billingv1.LogInOpenIDRequest,
) (*billingv1.LogInOpenIDResponse, error) {
	in, err := s.Users.EnterByOpenID(ctx, oidc.Returned{
		Name: req.GetIssuer(), State: req.GetState(), Code: req.GetCode(), Flow: req.GetFlow(),
	}, req.GetOpen(), user.From{Shown: req.GetNetworkShown(), Remember: true})
	if err != nil {
		return nil, err
	}
	return &billingv1.LogInOpenIDResponse{
		User: userToProto(in.User), RefreshToken: in.Refresh.Reveal(),
		RefreshExpiresAt: timestamp(in.RefreshExpiresAt), Opened: in.Opened,
	}, nil
}
