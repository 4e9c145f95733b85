package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/oidc"
	"svc.internal/services/billing-ledger/internal/user"
)

// GetSignInMethods says how users may sign in.
func (s *Users) GetSignInMethods(
	context.Context, *billingv1.GetSignInMethodsRequest,
) (*billingv1.GetSignInMethodsResponse, error) {
	methods := s.Users.SignInMethods()
	resp := &billingv1.GetSignInMethodsResponse{Letters: methods.Letters, Playground: s.Playground}
	for _, name := range methods.Issuers {
		resp.Openid = append(resp.Openid, &billingv1.OpenIDProvider{Name: name, Label: oidc.Label(name)})
	}
	return resp, nil
}

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

// StartOpenIDLink begins to link an identity of an OpenID provider. A malformed user id is that of
// no user.
func (s *Users) StartOpenIDLink(
	ctx context.Context, req *billingv1.StartOpenIDLinkRequest,
) (*billingv1.StartOpenIDLinkResponse, error) {
	id, err := user.ParseID(req.GetUserId())
	if err != nil || id.IsZero() {
		return nil, user.NotFound()
	}
	family, err := user.ParseFamily(req.GetSessionId())
	if err != nil {
		return nil, malformed("session_id")
	}
	started, err := s.Users.StartOpenIDLink(ctx, req.GetIssuer(), id, family)
	if err != nil {
		return nil, err
	}
	return &billingv1.StartOpenIDLinkResponse{Url: started.URL, Flow: started.Flow,
		EndsAt: timestamppb.New(started.EndsAt)}, nil
}

// LogInOpenID gives a token for the word of an OpenID provider, or links an identity.
func (s *Users) LogInOpenID(
	ctx context.Context, req *billingv1.LogInOpenIDRequest,
) (*billingv1.LogInOpenIDResponse, error) {
	end, err := s.Users.FinishOpenID(ctx, oidc.Returned{
		Name: req.GetIssuer(), State: req.GetState(), Code: req.GetCode(), Flow: req.GetFlow(),
	}, req.GetOpen(), user.From{Shown: req.GetNetworkShown(), Remember: true})
	switch {
	case err != nil:
		return nil, err
	case !end.Linked.ID.IsZero():
		return &billingv1.LogInOpenIDResponse{Linked: identityToProto(end.Linked)}, nil
	}
	return &billingv1.LogInOpenIDResponse{
		User: userToProto(end.User), RefreshToken: end.Refresh.Reveal(),
		RefreshExpiresAt: timestamp(end.RefreshExpiresAt), Opened: end.Opened,
	}, nil
}
