package rpc

import (
	"context"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
)

// ConsumerKeys answers users about the keys of their own accounts.
type ConsumerKeys struct {
	billingv1.UnimplementedConsumerKeyServiceServer
	Keys *key.Own
}

// ownKey returns the account of the user for whom a call is made, and the key that it names. A
// malformed id is not found either.
func ownKey(ctx context.Context, keyID string) (ids.AccountID, ids.KeyID, error) {
	account, err := ownAccount(ctx)
	if err != nil {
		return ids.AccountID{}, ids.KeyID{}, err
	}
	id, err := ids.ParseKey(keyID)
	if err != nil {
		return ids.AccountID{}, ids.KeyID{}, key.NotFound()
	}
	return account, id, nil
}

// ListConsumerKeys is one page of the account's keys.
func (s *ConsumerKeys) ListConsumerKeys(
	ctx context.Context, req *billingv1.ListConsumerKeysRequest,
) (*billingv1.ListConsumerKeysResponse, error) {
	account, err := ownAccount(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := s.Keys.List(ctx, account, req.GetCursor(), req.GetRevoked(), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListConsumerKeysResponse{NextCursor: next}
	for _, k := range page {
		resp.List = append(resp.List, ownedToProto(k))
	}
	return resp, nil
}

// CreateConsumerKey makes a key and shows it this once.
func (s *ConsumerKeys) CreateConsumerKey(
	ctx context.Context, req *billingv1.CreateConsumerKeyRequest,
) (*billingv1.CreateConsumerKeyResponse, error) {
	account, err := ownAccount(ctx)
	if err != nil {
		return nil, err
	}
	settings, err := settingsFromProto(req.GetSettings())
	if err != nil {
		return nil, err
	}
	made, text, err := s.Keys.Make(ctx, account, settings)
	if err != nil {
		return nil, err
	}
	return &billingv1.CreateConsumerKeyResponse{Key: ownedToProto(made), ApiKey: text}, nil
}

// GetConsumerKey reads a key.
func (s *ConsumerKeys) GetConsumerKey(
	ctx context.Context, req *billingv1.GetConsumerKeyRequest,
) (*billingv1.GetConsumerKeyResponse, error) {
	account, id, err := ownKey(ctx, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	found, err := s.Keys.Get(ctx, account, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetConsumerKeyResponse{Key: ownedToProto(found)}, nil
}

// UpdateConsumerKey replaces the settings of a key.
func (s *ConsumerKeys) UpdateConsumerKey(
	ctx context.Context, req *billingv1.UpdateConsumerKeyRequest,
) (*billingv1.UpdateConsumerKeyResponse, error) {
	account, id, err := ownKey(ctx, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	settings, err := settingsFromProto(req.GetSettings())
	if err != nil {
		return nil, err
	}
	changed, err := s.Keys.Change(ctx, account, id, settings)
	if err != nil {
		return nil, err
	}
	return &billingv1.UpdateConsumerKeyResponse{Key: ownedToProto(changed)}, nil
}

// RotateConsumerKey gives a key another text and shows it this once.
func (s *ConsumerKeys) RotateConsumerKey(
	ctx context.Context, req *billingv1.RotateConsumerKeyRequest,
) (*billingv1.RotateConsumerKeyResponse, error) {
	account, id, err := ownKey(ctx, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	until, err := moment(req.GetOldWorksUntil(), "old_works_until")
	if err != nil {
		return nil, err
	}
	rotated, text, err := s.Keys.Rotate(ctx, account, id, until)
	if err != nil {
		return nil, err
	}
	return &billingv1.RotateConsumerKeyResponse{Key: ownedToProto(rotated), ApiKey: text}, nil
}

// RevokeConsumerKey ends a key for ever.
func (s *ConsumerKeys) RevokeConsumerKey(
	ctx context.Context, req *billingv1.RevokeConsumerKeyRequest,
) (*billingv1.RevokeConsumerKeyResponse, error) {
	account, id, err := ownKey(ctx, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	revoked, err := s.Keys.RevokeOwn(ctx, account, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.RevokeConsumerKeyResponse{Key: ownedToProto(revoked)}, nil
}

func settingsFromProto(m *billingv1.ConsumerKeySettings) (key.Settings, error) {
	expires, err := moment(m.GetExpiresAt(), "expires_at")
	if err != nil {
		return key.Settings{}, err
	}
	s := key.Settings{Name: m.GetName(), Models: m.GetAllowedModelIds(), ExpiresAt: expires,
		IncludeUsage: m.GetIncludeUsage()}
	amount, err := bound(m.GetBudgetUsd(), "budget_usd")
	switch {
	case err != nil:
		return key.Settings{}, err
	case amount != nil:
		s.Budget = &limit.Budget{Amount: *amount, Period: limit.Period(m.GetBudgetPeriod())}
		if s.Budget.Period == "" {
			s.Budget.Period = limit.Ever
		}
	case m.GetBudgetPeriod() != "":
		return key.Settings{}, malformed("budget_period")
	}
	return s, nil
}

func ownedToProto(k key.Owned) *billingv1.ConsumerKey {
	state := "active"
	switch {
	case k.Revoked:
		state = "revoked"
	case k.Expired:
		state = "expired"
	}
	return &billingv1.ConsumerKey{
		KeyId: k.ID.String(), KeyPrefix: k.Prefix, State: state, Name: k.Name, AllowedModelIds: k.Models,
		IncludeUsage: k.IncludeUsage, CreatedAt: timestamp(k.CreatedAt), ExpiresAt: timestamp(k.ExpiresAt),
		RevokedAt: timestamp(k.RevokedAt), LastUsedAt: timestamp(k.UsedAt), OldKeyPrefix: k.OldPrefix,
		OldWorksUntil: timestamp(k.OldUntil), Budget: spendingToProto(k.Spending),
	}
}
