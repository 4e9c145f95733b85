package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/key"
)

// Keys answers gateways.
type Keys struct {
	billingv1.UnimplementedKeyServiceServer
	Keys *key.Keys
}

// AuthenticateKey finds the account of a key.
func (s *Keys) AuthenticateKey(
	ctx context.Context, req *billingv1.AuthenticateKeyRequest,
) (*billingv1.AuthenticateKeyResponse, error) {
	if len(req.GetKeySha256()) != len(apikey.Digest{}) {
		return nil, malformed("key_sha256")
	}
	k, err := s.Keys.Authenticate(ctx, apikey.Digest(req.GetKeySha256()))
	if err != nil {
		return nil, err
	}
	return &billingv1.AuthenticateKeyResponse{
		KeyId: k.ID.String(), AccountId: k.Account.String(), AccountTag: s.Keys.AccountTag(k.Account),
		AllowedModelIds: k.Models, ExpiresAt: timestamp(k.ExpiresAt), IncludeUsage: k.IncludeUsage,
		Priority: k.Priority,
	}, nil
}

// timestamp returns nil for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
