// Package rpc serves the chain-signer's contract: it reads requests strictly into the domain's
// types, and has no way to hand bytes to a key.
package rpc

import (
	"context"

	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/signing"
)

// Kinds of what is signed, for Observe.
const (
	Transaction = "transaction"
	Statement   = "statement"
	Sweep       = "sweep"
)

// Signer serves SignerService.
type Signer struct {
	signerv1.UnimplementedSignerServiceServer

	Signer *signing.Signer
	// Observe is told of each signature, and of each refusal with its error.
	Observe func(ctx context.Context, kind string, key policy.Key, err error)
}

// ListKeys implements SignerService.
func (s *Signer) ListKeys(context.Context, *signerv1.ListKeysRequest) (*signerv1.ListKeysResponse, error) {
	resp := &signerv1.ListKeysResponse{}
	for _, key := range s.Signer.Ring.List() {
		resp.Keys = append(resp.Keys, &signerv1.Key{Name: string(key.Name), Address: key.Address[:]})
	}
	return resp, nil
}

// GetDepositXpub implements SignerService.
func (s *Signer) GetDepositXpub(
	context.Context, *signerv1.GetDepositXpubRequest,
) (*signerv1.GetDepositXpubResponse, error) {
	xpub, err := s.Signer.Ring.Xpub()
	if err != nil {
		return nil, err
	}
	return &signerv1.GetDepositXpubResponse{Xpub: xpub}, nil
}

// GetNextNonce implements SignerService.
func (s *Signer) GetNextNonce(
	ctx context.Context, req *signerv1.GetNextNonceRequest,
) (*signerv1.GetNextNonceResponse, error) {
	id, err := chainID(req.GetChainId())
	if err != nil {
		return nil, err
	}
	index, err := depositIndex(req.GetKey(), req.GetDepositIndex())
	if err != nil {
		return nil, err
	}
	sender, next, err := s.Signer.Next(ctx, id, policy.Key(req.GetKey()), index)
	if err != nil {
		return nil, err
	}
	return &signerv1.GetNextNonceResponse{Sender: sender[:], Next: int64(next)}, nil
}

// SignTransaction implements SignerService.
func (s *Signer) SignTransaction(
	ctx context.Context, req *signerv1.SignTransactionRequest,
) (resp *signerv1.SignTransactionResponse, err error) {
	defer func() { s.Observe(ctx, Transaction, policy.Key(req.GetKey()), err) }()
	t, index, err := transaction(req)
	if err != nil {
		return nil, err
	}
	signed, err := s.Signer.Transaction(ctx, t, index)
	if err != nil {
		return nil, err
	}
	return &signerv1.SignTransactionResponse{
		Raw: signed.Raw, Hash: signed.Hash[:], CallHash: signed.CallHash[:], Sender: signed.Sender[:],
	}, nil
}

// SignStatement implements SignerService.
func (s *Signer) SignStatement(
	ctx context.Context, req *signerv1.SignStatementRequest,
) (resp *signerv1.SignStatementResponse, err error) {
	defer func() { s.Observe(ctx, Statement, policy.Statement, err) }()
	statement, err := statement(req)
	if err != nil {
		return nil, err
	}
	signature, by, err := s.Signer.Statement(ctx, statement)
	if err != nil {
		return nil, err
	}
	signature[64] += legacyV
	return &signerv1.SignStatementResponse{Signature: signature[:], Signer: by[:]}, nil
}

// SignSweep implements SignerService.
func (s *Signer) SignSweep(
	ctx context.Context, req *signerv1.SignSweepRequest,
) (resp *signerv1.SignSweepResponse, err error) {
	defer func() { s.Observe(ctx, Sweep, policy.Deposit, err) }()
	w, err := sweep(req)
	if err != nil {
		return nil, err
	}
	signature, from, err := s.Signer.Sweep(ctx, w)
	if err != nil {
		return nil, err
	}
	return &signerv1.SignSweepResponse{
		V: int32(signature[64]) + legacyV, R: signature[:32], S: signature[32:64], From: from[:],
	}, nil
}

// legacyV is what contracts expect on top of the recovery id.
const legacyV = 27
