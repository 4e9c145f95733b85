package operator

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"svc.internal/pkg/apikey"
)

// sealPurpose keeps the key apart from everything else that is derived from the pepper.
const sealPurpose = "svc operator codes v1"

// Sealer keeps the secrets of codes unreadable in the database. A sealed secret opens for
// its own operator only.
type Sealer struct{ aead cipher.AEAD }

// NewSealer makes a sealer of a key that is derived from the pepper.
func NewSealer(pepper apikey.Pepper) (*Sealer, error) {
	key, err := hkdf.Key(sha256.New, pepper[:], nil, sealPurpose, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of operators' codes: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make the sealer of operators' codes: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make the sealer of operators' codes: %w", err)
	}
	return &Sealer{aead}, nil
}

// Sealed is a secret as it is stored.
type Sealed []byte

func (s *Sealer) seal(id ID, secret Secret) Sealed {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+secretBytes+s.aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return s.aead.Seal(nonce, nonce, secret.raw[:], id[:])
}

// errSealed is the error for a secret that does not open, as under another pepper.
var errSealed = errors.New("the secret of an operator's codes does not open")

func (s *Sealer) open(id ID, sealed Sealed) (secret Secret, err error) {
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return Secret{}, errSealed
	}
	raw, err := s.aead.Open(nil, sealed[:n], sealed[n:], id[:])
	if err != nil || len(raw) != secretBytes {
		return Secret{}, errSealed
	}
	copy(secret.raw[:], raw)
	return secret, nil
}
