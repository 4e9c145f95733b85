package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
)

// ListKeys lists the keys of a user's account.
func (s *Self) ListKeys(ctx context.Context, m *hubv1.ListKeysRequest) (*hubv1.ListKeysResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	keys, err := s.accounts.OwnKeys(ctx, id)
	if err != nil {
		return nil, err
	}
	return &hubv1.ListKeysResponse{Keys: keysToProto(keys, s.accounts.Now())}, nil
}

// ListProviderKeys lists the keys of a provider for operators.
func (a *Admin) ListProviderKeys(
	ctx context.Context, m *hubv1.ListProviderKeysRequest,
) (*hubv1.ListProviderKeysResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	keys, err := a.accounts.OwnKeys(ctx, id)
	if err != nil {
		return nil, err
	}
	return &hubv1.ListProviderKeysResponse{Keys: keysToProto(keys, a.accounts.Now())}, nil
}

func keysToProto(keys []provider.OwnKey, now time.Time) []*hubv1.ProviderKey {
	list := make([]*hubv1.ProviderKey, 0, len(keys))
	for _, k := range keys {
		list = append(list, &hubv1.ProviderKey{
			KeyId: k.ID.String(), KeyPrefix: k.Shown, Name: k.Name, Active: k.Good(now),
			CreatedAt: timestamppb.New(k.MadeAt), ExpiresAt: optionalTime(k.Expires), RevokedAt: optionalTime(k.Revoked),
			LastUsedAt: optionalTime(k.Used),
		})
	}
	return list
}

// RevokeKey ends a key of a user's account and closes its connections.
func (s *Self) RevokeKey(ctx context.Context, m *hubv1.RevokeKeyRequest) (*hubv1.RevokeKeyResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	key, err := ids.ParseKey(m.GetKeyId())
	if err != nil {
		return nil, fault.New(fault.NotFound, fault.KeyNotFound, "no such provider key").On("key_id")
	}
	if err := s.accounts.RevokeOwnKey(ctx, id, key); err != nil {
		return nil, err
	}
	s.presence.KeyRevoked(key)
	return &hubv1.RevokeKeyResponse{}, nil
}
