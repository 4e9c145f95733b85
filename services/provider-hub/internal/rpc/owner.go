package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
)

// purposes maps the protocol's purposes to the domain's. A challenge that names none is one
// to connect.
var purposes = map[hubv1.ChallengePurpose]provider.Purpose{
	hubv1.ChallengePurpose_CHALLENGE_PURPOSE_UNSPECIFIED:   provider.Connect,
	hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONNECT:       provider.Connect,
	hubv1.ChallengePurpose_CHALLENGE_PURPOSE_PAYOUT:        provider.PayOut,
	hubv1.ChallengePurpose_CHALLENGE_PURPOSE_PAYOUT_CANCEL: provider.CancelPayout,
	hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONVERT:       provider.Convert,
	hubv1.ChallengePurpose_CHALLENGE_PURPOSE_COLLATERAL:    provider.Collateral,
}

// actFromProto reads what a signature is good for.
func actFromProto(purpose hubv1.ChallengePurpose, m *hubv1.MoneyAct) (provider.Act, error) {
	known, ok := purposes[purpose]
	if !ok {
		return provider.Act{}, fault.New(fault.Invalid, fault.InvalidValue, "there is no such purpose").On("purpose")
	}
	act := provider.Act{Purpose: known, Amount: m.GetAmountUsd()}
	if text := m.GetProviderId(); text != "" {
		var err error
		if act.Provider, err = ids.ParseProvider(text); err != nil {
			return provider.Act{}, fault.New(fault.Invalid, fault.InvalidValue, "provider_id is no provider's id").On(
				"provider_id")
		}
	}
	switch digest := m.GetRequestSha256(); len(digest) {
	case 0: // the domain refuses an act on money without one
	case len(act.Request):
		act.Request = provider.RequestDigest(digest)
	default:
		return provider.Act{}, fault.New(fault.Invalid, fault.InvalidValue, "request_sha256 must have %d bytes",
			len(act.Request)).On("request_sha256")
	}
	return act, nil
}

// CreateChallenge makes the challenge that a wallet signs to connect, or for an act on
// money.
func (s *Self) CreateChallenge(
	ctx context.Context, m *hubv1.CreateChallengeRequest,
) (*hubv1.CreateChallengeResponse, error) {
	act, err := actFromProto(m.GetPurpose(), m.GetAct())
	if err != nil {
		return nil, err
	}
	asked, err := s.accounts.AskAct(ctx, m.GetAddress(), act)
	if err != nil {
		return nil, err
	}
	return &hubv1.CreateChallengeResponse{
		Nonce: asked.Nonce, Message: asked.Message, ExpiresAt: timestamppb.New(asked.ExpiresAt),
	}, nil
}

// ProveOwner verifies and spends the signature of an owner's wallet for an act on money.
func (s *Self) ProveOwner(ctx context.Context, m *hubv1.ProveOwnerRequest) (*hubv1.ProveOwnerResponse, error) {
	act, err := actFromProto(m.GetPurpose(), m.GetAct())
	if err != nil {
		return nil, err
	}
	a, address, err := s.accounts.ProveOwner(ctx, m.GetAddress(), m.GetAuthNonce(), m.GetSignature(), act)
	if err != nil {
		return nil, err
	}
	return &hubv1.ProveOwnerResponse{
		ProviderId: a.ID.String(), AccountId: a.Payee.AccountID, Address: address.String(),
	}, nil
}
