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
	Link
}

// Link says for which user, and in which session of that user, an identity shall be linked. The zero
// link is for a sign-in.
type Link struct {
	User    string `json:"u,omitempty"`
	Session string `json:"l,omitempty"`
}

// label keeps flows apart from all else that is sealed, and flows of links from flows of sign-ins: an
// earlier release opens no flow of a link, and so signs nobody in by it.
func (l Link) label() []byte {
	if l == (Link{}) {
		return []byte("svc OpenID flow v1")
	}
	return []byte("svc OpenID link v1")
}

// sealers seal flows with the first of them and open flows of each.
type sealers []sealer

func newSealers(secrets [][]byte) (all sealers, err error) {
	for _, secret := range secrets {
		s, err := newSealer(secret)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// open is as that of sealer.
func (all sealers) open(sealed []byte) (flow, bool) {
	for _, s := range all {
		if f, ok := s.open(sealed); ok {
			return f, true
		}
	}
	return flow{}, false
}

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
	return s.aead.Seal(nonce, nonce, text, f.label()), nil
}

// open reads a flow, of a sign-in or of a link. It reports whether this installation sealed it.
func (s sealer) open(sealed []byte) (f flow, ok bool) {
	size := s.aead.NonceSize()
	if len(sealed) < size || len(sealed) > maxFlow {
		return flow{}, false
	}
	for _, l := range []Link{{}, {User: "somebody"}} {
		text, err := s.aead.Open(nil, sealed[:size], sealed[size:], l.label())
		if err != nil {
			continue
		}
		if json.Unmarshal(text, &f) != nil {
			break
		}
		return f, true
	}
	return flow{}, false
}
