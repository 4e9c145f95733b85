package store

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pg/peppers"
	"svc.internal/services/provider-hub/internal/provider"
)

// Peppers are the peppers of provider keys. A key that a verdict revoked counts, because it may be
// good again.
var Peppers = peppers.Registry{
	Service: "provider-hub",
	InUse: `SELECT pepper, count(*)::bigint AS hashes FROM provider_key
		WHERE (revoked_at IS NULL OR expelled_by IS NOT NULL) AND (expires_at IS NULL OR expires_at > now())
		GROUP BY pepper`,
}

// Secrets enrols the peppers of the settings and returns what a directory hashes with.
func (s *Store) Secrets(ctx context.Context, current, previous apikey.Pepper) (provider.Secrets, error) {
	enrolled, err := Peppers.Enrol(ctx, s.pool, current, previous)
	if err != nil {
		return provider.Secrets{}, err
	}
	identities, err := s.identitySecret(ctx, enrolled)
	if err != nil {
		return provider.Secrets{}, fmt.Errorf("read the secret of identities: %w", err)
	}
	return provider.Secrets{Peppers: enrolled, Identities: identities}, nil
}

// firstPepper is the pepper of which the secret of identities is derived.
const firstPepper = 1

// identitySecret reads the secret of identities under a pepper that has it, and seals it under each
// pepper that does not.
func (s *Store) identitySecret(ctx context.Context, enrolled apikey.Peppers) (secret []byte, err error) {
	var missing []numbered
	for pepper, number := range enrolled.Each {
		var sealed []byte
		if err := s.pool.QueryRow(ctx, `SELECT identities FROM pepper WHERE number = $1`, number).Scan(&sealed); err != nil {
			return nil, err
		}
		if sealed == nil {
			missing = append(missing, numbered{pepper, number})
			continue
		}
		if secret, err = openIdentities(pepper, sealed); err != nil {
			return nil, err
		}
	}
	for _, m := range missing {
		if secret == nil && m.number == firstPepper {
			secret = provider.IdentitySecret(m.pepper)
		}
	}
	if secret == nil {
		return nil, errors.New("none of the peppers that are set has it: set the pepper that was used until now as the " +
			"previous pepper (SVC_PEPPER_PREVIOUS)")
	}
	return secret, pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		for _, m := range missing {
			sealed, err := sealIdentities(m.pepper, secret)
			if err != nil {
				return err
			}
			// Another hub may be starting too. What it has sealed is the same secret.
			if _, err := tx.Exec(ctx, `UPDATE pepper SET identities = $2 WHERE number = $1 AND identities IS NULL`, m.number,
				sealed); err != nil {
				return err
			}
		}
		return nil
	})
}

type numbered struct {
	pepper apikey.Pepper
	number apikey.Number
}

func identitiesAEAD(pepper apikey.Pepper) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, pepper[:], nil, "svc secret of identities v1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func sealIdentities(pepper apikey.Pepper, secret []byte) ([]byte, error) {
	aead, err := identitiesAEAD(pepper)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return aead.Seal(nonce, nonce, secret, nil), nil
}

func openIdentities(pepper apikey.Pepper, sealed []byte) ([]byte, error) {
	aead, err := identitiesAEAD(pepper)
	if err != nil {
		return nil, err
	}
	n := aead.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("the secret of identities is cut off")
	}
	return aead.Open(nil, sealed[:n], sealed[n:], nil)
}
