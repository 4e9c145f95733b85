package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/identity"
)

// Of payout addresses the last one counts, because the earlier ones may be of others:
// whoever names address after address would make one owner of all who have them.
const selectOwning = `
SELECT i.provider_id, i.kind, i.digest FROM identity i
WHERE i.provider_id = ANY ($1::uuid[]) AND (i.kind IN ('user', 'wallet')
	OR i.kind = 'payout' AND NOT EXISTS (SELECT FROM identity n WHERE n.provider_id = i.provider_id AND n.kind = 'payout'
		AND (n.first_seen, n.digest) > (i.first_seen, i.digest)))`

// kindOf are the kinds of identities as they are kept.
var kindOf = map[identity.Kind]IdentityKind{
	identity.User: User, identity.Wallet: Wallet, identity.Payout: Payout, identity.ReceiptKey: ReceiptKey,
}

// IdentitiesOf are identities as they are kept.
func IdentitiesOf(all []identity.Identity) []Identity {
	out := make([]Identity, len(all))
	for i, one := range all {
		out[i].Kind = kindOf[one.Kind()]
		digest := one.Digest()
		copy(out[i].Digest[:], digest[:])
	}
	return out
}

// Owners returns the owners of accounts by what was recorded of them. Accounts that share a
// user, a wallet or the present payout address have one owner.
func (s *Store) Owners(ctx context.Context, accounts []ids.ProviderID) (*identity.Owners, error) {
	var owners identity.Owners
	raw := make([][16]byte, len(accounts))
	for i, id := range accounts {
		owners.Add(id)
		raw[i] = id
	}
	rows, err := s.pool.Query(ctx, selectOwning, raw)
	if err != nil {
		return nil, fmt.Errorf("read the owners of %d accounts: %w", len(accounts), err)
	}
	var id ids.ProviderID
	var kind IdentityKind
	var digest []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &kind, &digest}, func() error {
		for k, kept := range kindOf {
			if kept == kind {
				owners.Add(id, identityFrom(k, digest))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the owners of %d accounts: %w", len(accounts), err)
	}
	return &owners, nil
}

func identityFrom(kind identity.Kind, digest []byte) identity.Identity {
	one := identity.Identity{byte(kind)}
	copy(one[1:], digest)
	return one
}
