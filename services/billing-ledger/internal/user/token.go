package user

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"time"
)

// SessionLife is how long a token is good for, MaxSessions how many of a user
// are kept. One that is over is known as such for SessionKept more, unless others
// take its place.
const (
	SessionLife = 15 * time.Minute
	SessionKept = 24 * time.Hour
	MaxSessions = 32
)

// tokenBytes are the random bytes of a token.
const tokenBytes = 32

// Digest is the SHA-256 of a secret or an e-mail: what is kept of it.
type Digest [sha256.Size]byte

// Token is the secret that a user signs in with. It prints as redacted; Reveal
// is for the one answer that shows it.
type Token struct{ text string }

// NewToken makes a token.
func NewToken(random io.Reader) (Token, error) {
	var raw [tokenBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return Token{}, fmt.Errorf("read randomness for a token: %w", err)
	}
	return Token{base64.RawURLEncoding.EncodeToString(raw[:])}, nil
}

// Reveal is the token's text.
func (t Token) Reveal() string { return t.text }

// Digest is of the token's text.
func (t Token) Digest() Digest { return sha256.Sum256([]byte(t.text)) }

// String keeps the text out of logs and errors.
func (Token) String() string { return "[redacted]" }

// GoString keeps it out of %#v too.
func (Token) GoString() string { return "[redacted]" }
