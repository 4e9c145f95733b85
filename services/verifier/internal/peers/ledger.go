package peers

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/verifier/internal/house"
)

// Ledger has the house accounts. It implements house.Ledger. Its errors hold no key.
type Ledger struct {
	Client billingv1.HouseAccountServiceClient
}

// Open opens an account.
func (l Ledger) Open(ctx context.Context, name, idempotencyKey string) (ids.AccountID, error) {
	resp, err := l.Client.OpenHouseAccount(ctx, &billingv1.OpenHouseAccountRequest{
		Name: name, IdempotencyKey: idempotencyKey,
	})
	if err != nil {
		return ids.AccountID{}, err
	}
	return ids.ParseAccount(resp.GetAccountId())
}

// Fund gives an account credit and returns its balance.
func (l Ledger) Fund(
	ctx context.Context, account ids.AccountID, amount money.NanoUSD, idempotencyKey string,
) (money.NanoUSD, error) {
	resp, err := l.Client.FundHouseAccount(ctx, &billingv1.FundHouseAccountRequest{
		AccountId: account.String(), AmountNanoUsd: int64(amount), IdempotencyKey: idempotencyKey,
	})
	if err != nil {
		return 0, err
	}
	return money.NanoUSD(resp.GetBalanceNanoUsd()), nil
}

// Issue makes a key of an account.
func (l Ledger) Issue(ctx context.Context, account ids.AccountID, expires time.Time) (house.Key, error) {
	resp, err := l.Client.IssueHouseKey(ctx, &billingv1.IssueHouseKeyRequest{
		AccountId: account.String(), ExpiresAt: timestamppb.New(expires),
	})
	if err != nil {
		return house.Key{}, err
	}
	id, err := ids.ParseKey(resp.GetKeyId())
	if err != nil {
		return house.Key{}, fmt.Errorf("read the id of a house key: %w", err)
	}
	return house.Key{Account: account, ID: id, Text: house.NewText(resp.GetApiKey())}, nil
}

// Revoke ends a key.
func (l Ledger) Revoke(ctx context.Context, id ids.KeyID) error {
	_, err := l.Client.RevokeHouseKey(ctx, &billingv1.RevokeHouseKeyRequest{KeyId: id.String()})
	return err
}
