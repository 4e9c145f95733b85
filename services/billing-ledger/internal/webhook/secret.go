package webhook

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"svc.internal/pkg/config"
)

// SecretPrefix begins the text of a secret.
const SecretPrefix = "whsec_"

// Sealer keeps secrets unreadable in the database. A sealed secret opens for its own endpoint
// only.
type Sealer struct{ aead cipher.AEAD }

// NewSealer makes a sealer of a key of 32 bytes.
func NewSealer(key []byte) (*Sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make the sealer of webhook secrets: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make the sealer of webhook secrets: %w", err)
	}
	return &Sealer{aead}, nil
}

// make returns a fresh secret, and its sealed form for an endpoint.
func (s *Sealer) make(id ID) (Secret, []byte) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	text := SecretPrefix + hex.EncodeToString(raw[:])
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(text)+s.aead.Overhead())
	_, _ = rand.Read(nonce)
	return config.NewSecret(text), s.aead.Seal(nonce, nonce, []byte(text), id[:])
}

// errSealed is the error for a secret that does not open.
var errSealed = errors.New("the secret of a webhook does not open")

func (s *Sealer) open(id ID, sealed []byte) ([]byte, error) {
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, errSealed
	}
	text, err := s.aead.Open(nil, sealed[:n], sealed[n:], id[:])
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}
