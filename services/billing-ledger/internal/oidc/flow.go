package oidc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// maxFlow bounds a sealed flow, in bytes.
const maxFlow = 2048

// flow is a sign-in that is under way.
type flow struct {
	Issuer   string `json:"i"`
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	EndsAt   int64  `json:"e"` // Unix seconds
}

// flowLabel keeps flows apart from all else that is sealed.
var flowLabel = []byte("svc OpenID flow v1")

// sealer seals flows, so that a browser can keep them and neither read nor change them.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte) (sealer, error) {
	key := sha256.Sum256(secret)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return sealer{}, fmt.Errorf("make the cipher of flows: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return sealer{}, fmt.Errorf("make the cipher of flows: %w", err)
	}
	return sealer{aead}, nil
}

func (s sealer) seal(f flow) ([]byte, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode a flow: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return s.aead.Seal(nonce, nonce, text, flowLabel), nil
}

// open reads a flow. It reports whether this installation sealed it.
func (s sealer) open(sealed []byte) (f flow, ok bool) {
	size := s.aead.NonceSize()
	if len(sealed) < size || len(sealed) > maxFlow {
		return flow{}, false
	}
	text, err := s.aead.Open(nil, sealed[:size], sealed[size:], flowLabel)
	if err != nil || json.Unmarshal(text, &f) != nil {
		return flow{}, false
	}
	return f, true
}
