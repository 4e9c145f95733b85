package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/trust"
)

// IdentityKind is by what two accounts are known to be of one person.
type IdentityKind string

// The kinds of identities.
const (
	Wallet     IdentityKind = "wallet"
	Payout     IdentityKind = "payout"
	User       IdentityKind = "user"
	ReceiptKey IdentityKind = "receipt_key"
)

// Identity is the digest of what an account is known by. The thing itself is not kept.
type Identity struct {
	Kind IdentityKind
	// Digest is what a hub said, with zeros behind it.
	Digest [32]byte
}

// MaxIdentities bounds the identities of a kind that are kept of a provider; further ones
// are not recorded.
const MaxIdentities = 64

// Identify records identities of a provider. It reports false where the provider has
// MaxIdentities of a kind already and not all were recorded.
func (s *Store) Identify(ctx context.Context, provider ids.ProviderID, known ...Identity) (bool, error) {
	kinds, digests := make([]string, len(known)), make([][]byte, len(known))
	for i, one := range known {
		kinds[i], digests[i] = string(one.Kind), one.Digest[:]
	}
	_, err := s.pool.Exec(ctx, `INSERT INTO identity (kind, digest, provider_id)
		SELECT k, d, $3 FROM unnest($1::text[], $2::bytea[]) AS u (k, d) ORDER BY k, d
		ON CONFLICT (kind, digest, provider_id) DO NOTHING`, kinds, digests, provider)
	if err != nil {
		return false, fmt.Errorf("record %d identities: %w", len(known), err)
	}
	var all bool
	err = s.pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM unnest($1::text[], $2::bytea[]) AS u (k, d)
		WHERE NOT EXISTS (SELECT FROM identity WHERE (kind, digest, provider_id) = (k, d, $3)))`, kinds, digests, provider).
		Scan(&all)
	if err != nil {
		return false, fmt.Errorf("look for %d identities: %w", len(known), err)
	}
	return all, nil
}

// Inherited is what another account of the same person left behind.
type Inherited struct {
	Provider ids.ProviderID
	// By are the kinds of identities that the two accounts share.
	By []IdentityKind
	// Removed reports whether a verdict removed the account and was not reversed, RemovedAt
	// when.
	Removed   bool
	RemovedAt time.Time
	// SeenAt is when one of its models was last connected.
	SeenAt time.Time
	// Models are its standings that are not the best, at most MaxPage.
	Models []InheritedModel
}

// InheritedModel is a standing that the ladder of misrepresentation holds in another lane
// than main, or caps.
type InheritedModel struct {
	Model     string
	Level     string
	Lane      trust.Lane
	CapTokens int64
}

// maxKin bounds the accounts of one person that are looked at.
const maxKin = 64

// Other accounts that share an identity, removed ones first. A removal counts until its
// verdict is reversed; of a reversal Of is the verdict that removed.
//
// Anybody can name another's payout address, or show another's public key. Such an identity
// therefore leads only to accounts that had it before, so that nobody can leave a removal to
// an honest account by naming its address.
const selectKin = `
SELECT o.provider_id, array_agg(DISTINCT o.kind ORDER BY o.kind),
	(SELECT max(v.at) FROM verdict v WHERE v.provider_id = o.provider_id AND v.removes
		AND NOT EXISTS (SELECT FROM verdict r WHERE r.of_verdict = v.verdict_id AND r.counts < 0)) AS removed,
	(SELECT max(f.seen_at) FROM offering f WHERE f.provider_id = o.provider_id)
FROM identity i JOIN identity o ON o.kind = i.kind AND o.digest = i.digest AND o.provider_id <> i.provider_id
	AND (i.kind IN ('user', 'wallet') OR o.first_seen < i.first_seen)
WHERE i.provider_id = $1 GROUP BY o.provider_id ORDER BY removed DESC NULLS LAST, o.provider_id LIMIT $2`

// The lane of benchmarks is nobody's but the account's own.
const selectKinModels = `
SELECT provider_id, model_id, level, misrep_lane, cap_tokens FROM standing
WHERE provider_id = ANY ($1) AND (misrep_lane <> 'main' OR cap_tokens > 0)
ORDER BY provider_id, model_id LIMIT $2`

// Inherits returns what an account inherits: removals and standings of other accounts with
// the same wallet, payout address, user or receipt key. Accounts without either are left
// out.
func (s *Store) Inherits(ctx context.Context, provider ids.ProviderID) ([]Inherited, error) {
	list, err := inherits(ctx, s.pool, provider)
	if err != nil {
		return nil, fmt.Errorf("look for what a provider inherits: %w", err)
	}
	return list, nil
}

func inherits(ctx context.Context, db querier, provider ids.ProviderID) ([]Inherited, error) {
	kin, err := collect(ctx, db, func(row pgx.CollectableRow) (k Inherited, err error) {
		var removed, seen *time.Time
		err = row.Scan(&k.Provider, &k.By, &removed, &seen)
		k.Removed, k.RemovedAt, k.SeenAt = removed != nil, timeOf(removed), timeOf(seen)
		return k, err
	}, selectKin, provider, maxKin)
	if err != nil || len(kin) == 0 {
		return nil, err
	}
	at, raw := map[ids.ProviderID]int{}, make([][16]byte, len(kin))
	for i, k := range kin {
		at[k.Provider], raw[i] = i, k.Provider
	}
	rows, err := db.Query(ctx, selectKinModels, raw, MaxPage)
	if err != nil {
		return nil, err
	}
	var id ids.ProviderID
	var m InheritedModel
	_, err = pgx.ForEachRow(rows, []any{&id, &m.Model, &m.Level, &m.Lane, &m.CapTokens}, func() error {
		k := &kin[at[id]]
		k.Models = append(k.Models, m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(kin, func(k Inherited) bool { return !k.Removed && len(k.Models) == 0 }), nil
}

// The times of inheritance.
const (
	// Barred is how long a removed provider may not apply again; so long its new accounts
	// get no requests.
	Barred = 7 * 24 * time.Hour
	// Left is how long an account has not been connected when a new one takes its place.
	Left = 24 * time.Hour
)

// Worst returns the lane and the cap that an offer of a model inherits: the worst lane and
// the smallest cap of the accounts that were removed or that have left. While a removed
// account is barred, every model is shut. Two accounts that are connected at once inherit
// nothing from each other, because they may be on different machines.
func Worst(list []Inherited, model string, now time.Time) (lane trust.Lane, capTokens int64) {
	lane = trust.Main
	for _, k := range list {
		if k.Removed && now.Sub(k.RemovedAt) < Barred {
			lane = trust.Shut
		}
		if !k.Removed && now.Sub(k.SeenAt) < Left {
			continue
		}
		for _, m := range k.Models {
			if m.Model != model {
				continue
			}
			lane = trust.Worse(lane, m.Lane)
			if m.CapTokens > 0 && (capTokens == 0 || m.CapTokens < capTokens) {
				capTokens = m.CapTokens
			}
		}
	}
	return lane, capTokens
}
