package siwe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// Life is how long a challenge of a Sealer counts.
const Life = 5 * time.Minute

// A nonce has 32 bytes: random bytes, the time of issue in milliseconds, and an HMAC by
// which whoever has the secret recognizes its own nonces.
const (
	nonceRandom = 10
	nonceTime   = 6
	nonceSeed   = nonceRandom + nonceTime
	nonceBytes  = 32
)

// Nonce is the nonce of a challenge. Its text is 64 hexadecimal digits.
type Nonce [nonceBytes]byte

// ParseNonce reads the text of a nonce. It has one form, in lower case.
func ParseNonce(text string) (n Nonce, ok bool) {
	if len(text) != hex.EncodedLen(nonceBytes) {
		return Nonce{}, false
	}
	if _, err := hex.Decode(n[:], []byte(text)); err != nil || n.String() != text {
		return Nonce{}, false
	}
	return n, true
}

// String returns the text of the nonce.
func (n Nonce) String() string { return hex.EncodeToString(n[:]) }

// IssuedAt is when the challenge was made, to the millisecond, as in its text.
func (n Nonce) IssuedAt() time.Time {
	var at [8]byte
	copy(at[len(at)-nonceTime:], n[nonceRandom:nonceSeed])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(at[:])))
}

// ExpiresAt is when the challenge stops to count.
func (n Nonce) ExpiresAt() time.Time { return n.IssuedAt().Add(Life) }

// Sealer issues challenges and recognizes them, so that nothing is kept of a challenge
// before it is answered. Two processes with one secret recognize each other's.
type Sealer struct{ secret []byte }

// NewSealer makes a sealer. The secret must serve nothing else.
func NewSealer(secret []byte) Sealer { return Sealer{secret} }

// Issue gives a challenge its nonce and its times.
func (s Sealer) Issue(c Challenge, now time.Time, random io.Reader) (Challenge, error) {
	var n Nonce
	if _, err := io.ReadFull(random, n[:nonceRandom]); err != nil {
		return Challenge{}, fmt.Errorf("read randomness for a nonce: %w", err)
	}
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(now.UnixMilli()))
	copy(n[nonceRandom:nonceSeed], at[len(at)-nonceTime:])
	copy(n[nonceSeed:], s.seal(c, n))
	return c.with(n), nil
}

// Issued returns the challenge with the nonce and the times of n, and reports whether this
// secret issued it.
func (s Sealer) Issued(c Challenge, n Nonce) (Challenge, bool) {
	return c.with(n), hmac.Equal(s.seal(c, n), n[nonceSeed:])
}

// with returns the challenge with a nonce and the times that follow from it.
func (c Challenge) with(n Nonce) Challenge {
	c.Nonce, c.IssuedAt, c.ExpiresAt = n.String(), n.IssuedAt(), n.ExpiresAt()
	return c
}

// seal is the HMAC of a nonce. It covers the whole text of the challenge, with the nonce's
// bytes before the HMAC in the nonce's place. So it holds for this wallet, domain, chain,
// purpose and time alone.
func (s Sealer) seal(c Challenge, n Nonce) []byte {
	c = c.with(n)
	c.Nonce = hex.EncodeToString(n[:nonceSeed])
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(Message(c)))
	return mac.Sum(nil)[:nonceBytes-nonceSeed]
}
