package rpc

import (
	"context"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/house"
	"svc.internal/services/billing-ledger/internal/key"
)

// House answers the verifier.
type House struct {
	billingv1.UnimplementedHouseAccountServiceServer
	Accounts *house.Accounts
}

// OpenHouseAccount opens a house account without credit.
func (s *House) OpenHouseAccount(
	ctx context.Context, req *billingv1.OpenHouseAccountRequest,
) (*billingv1.OpenHouseAccountResponse, error) {
	id, err := s.Accounts.Open(ctx, req.GetName(), req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	return &billingv1.OpenHouseAccountResponse{AccountId: id.String()}, nil
}

// FundHouseAccount gives a house account credit. A malformed id is not found either.
func (s *House) FundHouseAccount(
	ctx context.Context, req *billingv1.FundHouseAccountRequest,
) (*billingv1.FundHouseAccountResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	entry, balance, err := s.Accounts.Fund(ctx, id, money.NanoUSD(req.GetAmountNanoUsd()), req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	return &billingv1.FundHouseAccountResponse{EntryId: entry.String(), BalanceNanoUsd: int64(balance)}, nil
}

// IssueHouseKey makes a key and shows it this once.
func (s *House) IssueHouseKey(
	ctx context.Context, req *billingv1.IssueHouseKeyRequest,
) (*billingv1.IssueHouseKeyResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	if !req.GetExpiresAt().IsValid() {
		return nil, malformed("expires_at")
	}
	issued, text, err := s.Accounts.IssueKey(ctx, id, req.GetExpiresAt().AsTime())
	if err != nil {
		return nil, err
	}
	return &billingv1.IssueHouseKeyResponse{KeyId: issued.ID.String(), ApiKey: text}, nil
}

// RevokeHouseKey ends a key for ever.
func (s *House) RevokeHouseKey(
	ctx context.Context, req *billingv1.RevokeHouseKeyRequest,
) (*billingv1.RevokeHouseKeyResponse, error) {
	id, err := ids.ParseKey(req.GetKeyId())
	if err != nil {
		return nil, key.NotFound()
	}
	if err := s.Accounts.RevokeKey(ctx, id); err != nil {
		return nil, err
	}
	return &billingv1.RevokeHouseKeyResponse{}, nil
}
