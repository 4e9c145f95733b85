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

// Secrets enrols the peppers of the settings and returns what a directory hashes with. A pepper is
// enrolled together with the secret of identities that is sealed under it, or not at all.
func (s *Store) Secrets(ctx context.Context, current, previous apikey.Pepper) (provider.Secrets, error) {
	var identities []byte
	enrolled, err := Peppers.EnrolThen(ctx, s.pool, current, previous,
		func(ctx context.Context, tx pgx.Tx, enrolled apikey.Peppers) (err error) {
			if identities, err = identitySecret(ctx, tx, enrolled); err != nil {
				return fmt.Errorf("read the secret of identities: %w", err)
			}
			return nil
		})
	if err != nil {
		return provider.Secrets{}, err
	}
	return provider.Secrets{Peppers: enrolled, Identities: identities}, nil
}

// firstPepper is the pepper of which the secret of identities is derived.
const firstPepper = 1

// identitySecret reads the secret of identities under a pepper that has it, and seals it under each
// pepper that does not.
func identitySecret(ctx context.Context, tx pgx.Tx, enrolled apikey.Peppers) (secret []byte, err error) {
	var missing []numbered
	for pepper, number := range enrolled.Each {
		var sealed []byte
		if err := tx.QueryRow(ctx, `SELECT identities FROM pepper WHERE number = $1`, number).Scan(&sealed); err != nil {
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
	for _, m := range missing {
		sealed, err := sealIdentities(m.pepper, secret)
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, `UPDATE pepper SET identities = $2 WHERE number = $1`, m.number, sealed); err != nil {
			return nil, err
		}
	}
	return secret, nil
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
