package rpc

import (
	"context"
	"math"

	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
)

// ListSenders implements SignerService.
func (s *Signer) ListSenders(
	ctx context.Context, req *signerv1.ListSendersRequest,
) (*signerv1.ListSendersResponse, error) {
	id, err := chainID(req.GetChainId())
	if err != nil {
		return nil, err
	}
	var after chain.Address
	if len(req.GetAfter()) > 0 {
		if after, err = address("after", req.GetAfter()); err != nil {
			return nil, err
		}
	}
	list, more, err := s.Signer.Senders(ctx, id, after)
	if err != nil {
		return nil, err
	}
	resp := &signerv1.ListSendersResponse{More: more}
	for _, one := range list {
		resp.Senders = append(resp.Senders, &signerv1.Sender{Address: one.Address[:], Key: string(one.Key),
			Next: int64(one.Highest) + 1})
	}
	return resp, nil
}

// ListSigned implements SignerService.
func (s *Signer) ListSigned(
	ctx context.Context, req *signerv1.ListSignedRequest,
) (*signerv1.ListSignedResponse, error) {
	id, err := chainID(req.GetChainId())
	if err != nil {
		return nil, err
	}
	sender, err := address("sender", req.GetSender())
	if err != nil {
		return nil, err
	}
	if req.GetFrom() < 0 || req.GetFrom() == math.MaxInt64 {
		return nil, invalid("from", "from must be at least 0 and below 2^63 - 1")
	}
	list, more, err := s.Signer.Signed(ctx, id, sender, uint64(req.GetFrom()))
	if err != nil {
		return nil, err
	}
	resp := &signerv1.ListSignedResponse{More: more}
	for _, one := range list {
		nonce := &signerv1.SignedNonce{Nonce: int64(one.Nonce), Cancelled: one.Cancelled}
		if !one.Content.IsZero() {
			nonce.CallHash, nonce.Asset, nonce.Amount = one.Content[:], one.Asset[:], one.Amount.String()
		}
		resp.Nonces = append(resp.Nonces, nonce)
	}
	return resp, nil
}
