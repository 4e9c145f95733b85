package external

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"svc.internal/pkg/config"
)

// MinSecret is the least length of a secret that keys are sealed under, in bytes.
const MinSecret = 32

// Sealer seals and opens the keys of endpoints. New keys are sealed under the current secret. A
// key that was sealed under another secret of the sealer opens, too.
type Sealer struct {
	current sealingKey
	others  []sealingKey
}

type sealingKey struct {
	aead cipher.AEAD
	name [8]byte
}

// NewSealer makes a sealer of the secrets that are set. derived is the secret of the fleet
// that takes the place of one where none is set, and under which keys may have been sealed
// before one was set.
func NewSealer(current, previous config.Secret, derived []byte) (*Sealer, error) {
	var all []sealingKey
	for _, secret := range [][]byte{[]byte(current.Reveal()), []byte(previous.Reveal()), derived} {
		if len(secret) == 0 {
			continue
		}
		k, err := newSealingKey(secret)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no secret that keys of endpoints are sealed under")
	}
	return &Sealer{current: all[0], others: all[1:]}, nil
}

func newSealingKey(secret []byte) (sealingKey, error) {
	raw, err := hkdf.Key(sha256.New, secret, nil, "svc keys of external endpoints v1", 40)
	if err != nil {
		return sealingKey{}, fmt.Errorf("derive the key of endpoints: %w", err)
	}
	block, err := aes.NewCipher(raw[:32])
	if err != nil {
		return sealingKey{}, fmt.Errorf("make the cipher of endpoints: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return sealingKey{}, fmt.Errorf("make the cipher of endpoints: %w", err)
	}
	return sealingKey{aead, [8]byte(raw[32:])}, nil
}

// boundTo is the associated data of an endpoint's key.
func boundTo(id ID, base string) []byte { return append(id[:], originOf(base)...) }

// Seal seals the key of an endpoint at a base URL. Without a key the result is the zero value.
func (s *Sealer) Seal(id ID, base string, k config.Secret) Sealed {
	if !k.IsSet() {
		return Sealed{}
	}
	nonce := make([]byte, s.current.aead.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return Sealed{s.current.aead.Seal(nonce, nonce, []byte(k.Reveal()), boundTo(id, base)), s.current.name}
}

// Open opens the key of an endpoint.
func (s *Sealer) Open(e *Endpoint) (config.Secret, error) {
	if e.Sealed.IsZero() {
		return config.Secret{}, nil
	}
	for _, k := range append([]sealingKey{s.current}, s.others...) {
		n := k.aead.NonceSize()
		if k.name != e.Sealed.By || len(e.Sealed.Box) < n {
			continue
		}
		plain, err := k.aead.Open(nil, e.Sealed.Box[:n], e.Sealed.Box[n:], boundTo(e.ID, e.BaseURL))
		if err != nil {
			break
		}
		return config.NewSecret(string(plain)), nil
	}
	return config.Secret{}, errors.New("the key of an endpoint opens under no secret of this hub, or is of another origin")
}

// Current names the key that new keys are sealed with.
func (s *Sealer) Current() [8]byte { return s.current.name }

// Reseal is the key of an endpoint under the current secret; nil where it does not open.
func (s *Sealer) Reseal(e Endpoint) *Sealed {
	k, err := s.Open(&e)
	if err != nil {
		return nil
	}
	sealed := s.Seal(e.ID, e.BaseURL, k)
	return &sealed
}
