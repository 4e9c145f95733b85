package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/siwe"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/user"
)

// maxOrigins bounds the origins of an installation.
const maxOrigins = 32

// CreateWalletChallenge makes the text that a wallet signs.
func (s *Users) CreateWalletChallenge(
	ctx context.Context, req *billingv1.CreateWalletChallengeRequest,
) (*billingv1.CreateWalletChallengeResponse, error) {
	ask := user.WalletAsk{Address: req.GetAddress(), ChainID: req.GetChainId(), Origin: req.GetOrigin()}
	if req.GetUserId() != "" {
		var err error
		if ask.User, err = user.ParseID(req.GetUserId()); err != nil || ask.User.IsZero() {
			return nil, malformed("user_id")
		}
	}
	asked, err := s.Users.AskWallet(ctx, ask)
	if err != nil {
		return nil, err
	}
	return &billingv1.CreateWalletChallengeResponse{Message: asked.Message,
		ExpiresAt: timestamppb.New(asked.ExpiresAt)}, nil
}

// LogInWallet gives a token for a wallet's signature.
func (s *Users) LogInWallet(
	ctx context.Context, req *billingv1.LogInWalletRequest,
) (*billingv1.LogInWalletResponse, error) {
	if len(req.GetOrigins()) > maxOrigins {
		return nil, malformed("origins")
	}
	in, key, err := s.Users.EnterByWallet(ctx, user.WalletProof{
		Message: req.GetMessage(), Signature: req.GetSignature(), Origins: req.GetOrigins(),
	}, req.GetOpen(), user.From{Shown: req.GetNetworkShown(), Remember: req.GetRemember()})
	if err != nil {
		return nil, err
	}
	return &billingv1.LogInWalletResponse{
		User: userToProto(in.User), Token: in.Token.Reveal(), ExpiresAt: timestamppb.New(in.ExpiresAt), ApiKey: key,
		RefreshToken: in.Refresh.Reveal(), RefreshExpiresAt: timestamp(in.RefreshExpiresAt),
	}, nil
}

// LinkWallet links a wallet to a user. A malformed user id is not found either.
func (s *Users) LinkWallet(
	ctx context.Context, req *billingv1.LinkWalletRequest,
) (*billingv1.LinkWalletResponse, error) {
	id, err := user.ParseID(req.GetUserId())
	if err != nil || id.IsZero() {
		return nil, user.NotFound()
	}
	family, err := user.ParseFamily(req.GetSessionId())
	if err != nil {
		return nil, malformed("session_id")
	}
	if len(req.GetOrigins()) > maxOrigins {
		return nil, malformed("origins")
	}
	linked, err := s.Users.LinkWallet(ctx, id, family, user.WalletProof{
		Message: req.GetMessage(), Signature: req.GetSignature(), Origins: req.GetOrigins(),
	})
	if err != nil {
		return nil, err
	}
	return &billingv1.LinkWalletResponse{Identity: identityToProto(linked)}, nil
}

// ListIdentities lists the user's identities.
func (s *UserSelf) ListIdentities(
	ctx context.Context, _ *billingv1.ListIdentitiesRequest,
) (*billingv1.ListIdentitiesResponse, error) {
	_, id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.Users.ListIdentities(ctx, id)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListIdentitiesResponse{}
	for _, one := range all {
		resp.Identities = append(resp.Identities, identityToProto(one))
	}
	return resp, nil
}

// DeleteIdentity ends one of the user's identities. A malformed id is not found either.
func (s *UserSelf) DeleteIdentity(
	ctx context.Context, req *billingv1.DeleteIdentityRequest,
) (*billingv1.DeleteIdentityResponse, error) {
	who, id, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	keep, err := user.ParseFamily(who.Session)
	if err != nil {
		return nil, notSignedIn()
	}
	identity, err := user.ParseIdentity(req.GetIdentityId())
	if err != nil {
		identity = user.IdentityID{}
	}
	if err := s.Users.EndIdentity(ctx, id, identity, keep); err != nil {
		return nil, err
	}
	return &billingv1.DeleteIdentityResponse{}, nil
}

func identityToProto(o user.OwnedIdentity) *billingv1.UserIdentity {
	subject := o.Subject
	if o.Issuer == user.Wallet {
		if a, err := siwe.ParseAddress(subject); err == nil { // the store takes no other
			subject = a.String()
		}
	}
	return &billingv1.UserIdentity{
		IdentityId: o.ID.String(), Issuer: string(o.Issuer), Subject: subject, CreatedAt: timestamppb.New(o.CreatedAt),
		UsedAt: timestamppb.New(o.UsedAt),
	}
}
