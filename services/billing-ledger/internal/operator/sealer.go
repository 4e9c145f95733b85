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
// its own operator only. The sealer seals under the current pepper and opens under each.
type Sealer struct{ under []sealing }

// sealing is the key of one pepper.
type sealing struct {
	aead   cipher.AEAD
	pepper apikey.Number
}

// NewSealer makes a sealer of keys that are derived from the peppers.
func NewSealer(peppers apikey.Peppers) (*Sealer, error) {
	s := &Sealer{}
	for pepper, number := range peppers.Each {
		aead, err := aeadOf(pepper)
		if err != nil {
			return nil, err
		}
		s.under = append(s.under, sealing{aead, number})
	}
	return s, nil
}

func aeadOf(pepper apikey.Pepper) (cipher.AEAD, error) {
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
	return aead, nil
}

// Sealed is a secret as it is stored.
type Sealed []byte

// Pepper returns the number of the pepper under which the sealer seals.
func (s *Sealer) Pepper() apikey.Number { return s.under[0].pepper }

func (s *Sealer) seal(id ID, secret Secret) Sealed {
	current := s.under[0]
	nonce := make([]byte, current.aead.NonceSize(), current.aead.NonceSize()+secretBytes+current.aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return current.aead.Seal(nonce, nonce, secret.raw[:], id[:])
}

// errSealed is the error for a secret that does not open, as under another pepper.
var errSealed = errors.New("the secret of an operator's codes does not open")

// open returns a secret, and the number of the pepper that opened it.
func (s *Sealer) open(id ID, sealed Sealed) (secret Secret, by apikey.Number, err error) {
	for _, under := range s.under {
		n := under.aead.NonceSize()
		if len(sealed) < n {
			break
		}
		raw, err := under.aead.Open(nil, sealed[:n], sealed[n:], id[:])
		if err == nil && len(raw) == secretBytes {
			copy(secret.raw[:], raw)
			return secret, under.pepper, nil
		}
	}
	return Secret{}, 0, errSealed
}

// renewed returns a secret sealed under the current pepper, and nil for a secret that was sealed
// under the current pepper or a newer one.
func (s *Sealer) renewed(id ID, secret Secret, by apikey.Number) Sealed {
	if s.Pepper() <= by {
		return nil
	}
	return s.seal(id, secret)
}
