package store

import (
	"context"
	"fmt"

	"svc.internal/pkg/usageseal"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/user"
)

// kinKey returns the key of the digests of evidence.
func kinKey(ctx context.Context, db querier) ([]byte, error) {
	var secret []byte
	if err := db.QueryRow(ctx, `SELECT secret FROM ledger_secret`).Scan(&secret); err != nil {
		return nil, fmt.Errorf("read the ledger's secret: %w", err)
	}
	key := usageseal.Derive(secret, "kin").Secret
	return key[:], nil
}

// digestOf returns the digest by which the owner of a wallet is recognised; nil for other
// identities.
func digestOf(ctx context.Context, db querier, i user.Identity) ([]byte, error) {
	if i.Issuer != user.Wallet {
		return nil, nil
	}
	evidence, err := kin.OfAddress(i.Subject)
	if err != nil {
		return nil, fmt.Errorf("the subject of a wallet: %w", err)
	}
	key, err := kinKey(ctx, db)
	if err != nil {
		return nil, err
	}
	digest := evidence.Digest(key)
	return digest[:], nil
}
