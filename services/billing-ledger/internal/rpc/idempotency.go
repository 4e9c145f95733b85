package rpc

import (
	"context"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/idempotency"
)

// Idempotency answers gateways whose clients sent an Idempotency-Key.
type Idempotency struct {
	billingv1.UnimplementedIdempotencyServiceServer
	Claims *idempotency.Claims
}

// ClaimKey asks for the right to run a request.
func (s *Idempotency) ClaimKey(
	ctx context.Context, req *billingv1.ClaimKeyRequest,
) (*billingv1.ClaimKeyResponse, error) {
	ask, err := askFromProto(req)
	if err != nil {
		return nil, err
	}
	a, err := s.Claims.Claim(ctx, ask)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ClaimKeyResponse{State: standingToProto(a.Standing), RequestId: a.Request.String()}
	if a.Standing == idempotency.Replay {
		resp.Answer = &billingv1.KeptAnswer{Sealed: a.Sealed}
	}
	return resp, nil
}

func askFromProto(req *billingv1.ClaimKeyRequest) (ask idempotency.Ask, err error) {
	if ask.Key, ask.Token, ask.Request, err = claimFromProto(req.GetKeyId(), req.GetTokenSha256(),
		req.GetRequestId()); err != nil {
		return ask, err
	}
	if len(req.GetRequestSha256()) != len(ask.Content) {
		return ask, malformed("request_sha256")
	}
	copy(ask.Content[:], req.GetRequestSha256())
	return ask, nil
}

// claimFromProto reads the name of a claim and its holder.
func claimFromProto(
	keyID string, token []byte, requestID string,
) (key ids.KeyID, digest idempotency.Digest, request ids.RequestID, err error) {
	if key, err = ids.ParseKey(keyID); err != nil {
		return key, digest, request, malformed("key_id")
	}
	if len(token) != len(digest) {
		return key, digest, request, malformed("token_sha256")
	}
	copy(digest[:], token)
	if request, err = ids.ParseRequest(requestID); err != nil {
		return key, digest, request, malformed("request_id")
	}
	return key, digest, request, nil
}

func standingToProto(s idempotency.Decision) billingv1.KeyClaim {
	switch s {
	case idempotency.Granted:
		return billingv1.KeyClaim_KEY_CLAIM_GRANTED
	case idempotency.Replay:
		return billingv1.KeyClaim_KEY_CLAIM_ANSWERED
	case idempotency.Gone:
		return billingv1.KeyClaim_KEY_CLAIM_GONE
	case idempotency.Reused:
		return billingv1.KeyClaim_KEY_CLAIM_REUSED
	case idempotency.Busy, idempotency.Lapsed:
	}
	return billingv1.KeyClaim_KEY_CLAIM_RUNNING
}

// FinishKey ends a claim.
func (s *Idempotency) FinishKey(
	ctx context.Context, req *billingv1.FinishKeyRequest,
) (*billingv1.FinishKeyResponse, error) {
	key, token, request, err := claimFromProto(req.GetKeyId(), req.GetTokenSha256(), req.GetRequestId())
	if err != nil {
		return nil, err
	}
	end := idempotency.End{Key: key, Token: token, Request: request, State: endFromProto(req.GetEnd()),
		Sealed: req.GetAnswer().GetSealed()}
	if err := s.Claims.Finish(ctx, end); err != nil {
		return nil, err
	}
	return &billingv1.FinishKeyResponse{}, nil
}

// endFromProto returns the empty state for an unknown end.
func endFromProto(e billingv1.KeyEnd) idempotency.State {
	switch e {
	case billingv1.KeyEnd_KEY_END_ANSWERED:
		return idempotency.Answered
	case billingv1.KeyEnd_KEY_END_NOT_KEPT:
		return idempotency.NotKept
	case billingv1.KeyEnd_KEY_END_FORGOTTEN:
		return idempotency.Forget
	case billingv1.KeyEnd_KEY_END_UNSPECIFIED:
	}
	return ""
}
