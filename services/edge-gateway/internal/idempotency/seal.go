package idempotency

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

const (
	// MaxAnswer bounds the body of an answer that is kept, in bytes.
	MaxAnswer = 1 << 20
	// maxSealed is billing-ledger's bound on a kept answer, in bytes.
	maxSealed = MaxAnswer + 4<<10
	// purpose keeps the key that seals answers apart from every other key that is derived
	// from an API key.
	purpose = "svc edge-gateway kept answer v1"
)

// Answer is the answer to a request.
type Answer struct {
	// RequestID names the request that was answered first.
	RequestID string
	Status    int
	// Header has the headers that are sent again.
	Header http.Header
	Body   []byte
}

// head stands before the body of a kept answer, behind its own length in 4 bytes.
type head struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
}

var errTooLarge = errors.New("the answer is too large to be kept")

// seal encrypts an answer with AES-256-GCM. Only a caller who has the API key and the
// Idempotency-Key can make the key of that cipher.
func seal(ask Ask, a *Answer, random io.Reader) ([]byte, error) {
	box, err := boxOf(ask)
	if err != nil {
		return nil, err
	}
	about, err := json.Marshal(head{a.Status, a.Header})
	if err != nil {
		return nil, fmt.Errorf("encode the head of an answer: %w", err)
	}
	if len(a.Body) > MaxAnswer || box.NonceSize()+4+len(about)+len(a.Body)+box.Overhead() > maxSealed {
		return nil, errTooLarge
	}
	nonce := make([]byte, box.NonceSize(), maxSealed)
	if _, err := io.ReadFull(random, nonce); err != nil {
		return nil, fmt.Errorf("make a nonce: %w", err)
	}
	plain := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(about)+len(a.Body)), uint32(len(about)))
	plain = append(append(plain, about...), a.Body...)
	return box.Seal(nonce, nonce, plain, bound(ask, ask.RequestID)), nil //nolint:gosec // the nonce is random
}

// open returns the answer to the request that seal has sealed.
func open(ask Ask, requestID string, sealed []byte) (*Answer, error) {
	box, err := boxOf(ask)
	if err != nil {
		return nil, err
	}
	if len(sealed) < box.NonceSize() {
		return nil, errors.New("what is kept is too short")
	}
	plain, err := box.Open(nil, sealed[:box.NonceSize()], sealed[box.NonceSize():], bound(ask, requestID))
	if err != nil {
		return nil, fmt.Errorf("open a kept answer: %w", err)
	}
	return decode(plain)
}

func decode(plain []byte) (*Answer, error) {
	if len(plain) < 4 || uint64(len(plain)-4) < uint64(binary.BigEndian.Uint32(plain)) {
		return nil, errors.New("a kept answer is cut off")
	}
	size := binary.BigEndian.Uint32(plain)
	var about head
	if err := json.Unmarshal(plain[4:4+size], &about); err != nil {
		return nil, fmt.Errorf("decode the head of a kept answer: %w", err)
	}
	if about.Status < 200 || about.Status > 599 {
		return nil, fmt.Errorf("a kept answer has status %d", about.Status)
	}
	return &Answer{Status: about.Status, Header: about.Header, Body: plain[4+size:]}, nil
}

// boxOf makes the cipher of a caller's key and token.
func boxOf(ask Ask) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(ask.APIKey), ask.Token.digest(), purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	box, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	return box, nil
}

// bound is the additional data that ties a sealed answer to its place, so that no row of
// the store opens in the place of another.
func bound(ask Ask, requestID string) []byte {
	return append(append([]byte(ask.KeyID+"\x00"+requestID+"\x00"), ask.Content[:]...), ask.Token.digest()...)
}
