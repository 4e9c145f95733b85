// Package dice has choices that nobody without the verifier's secret can foresee, and that
// the verifier can make again.
//
// A choice is a function of the secret, of what it is for, and of what it is about. So a
// restart makes the same choice, two replicas make the same choice, and the choice cannot
// depend on an answer that came meanwhile.
package dice

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"svc.internal/services/verifier/internal/prompt"
)

// Bytes returns HMAC-SHA-256 over the purpose and the parts, each behind its length.
func Bytes(secret prompt.Secret, purpose string, parts ...[]byte) [32]byte {
	mac := hmac.New(sha256.New, secret[:])
	write := func(part []byte) {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write(part)
	}
	mac.Write([]byte("svc dice v1 "))
	write([]byte(purpose))
	for _, part := range parts {
		write(part)
	}
	return [32]byte(mac.Sum(nil))
}

// New returns the random numbers of a purpose. Their algorithm is fixed by the Go library
// for all versions.
func New(secret prompt.Secret, purpose string, parts ...[]byte) *rand.Rand {
	return rand.New(rand.NewChaCha8(Bytes(secret, purpose, parts...))) //nolint:gosec // ChaCha8 under a secret
}
