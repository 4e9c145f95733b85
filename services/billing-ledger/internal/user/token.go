package user

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"time"
)

// SessionLife is how long a token is valid. MaxSessions is how many sessions of a user
// are kept: one more ends the session that would end first. An ended session is answered
// session_expired for SessionKept, unless another session took its place, and
// invalid_session after that.
const (
	SessionLife = 15 * time.Minute
	SessionKept = 24 * time.Hour
	MaxSessions = 32
)

// tokenBytes are the random bytes of a token; its text has 43 characters.
const tokenBytes = 32

// Digest is the SHA-256 of a secret or an e-mail; only the digest is stored.
type Digest [sha256.Size]byte

// Token is the secret of a user session. It prints as redacted. Reveal is for the one
// answer that shows it.
type Token struct{ text string }

// NewToken makes a token.
func NewToken(random io.Reader) (Token, error) {
	var raw [tokenBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return Token{}, fmt.Errorf("read randomness for a token: %w", err)
	}
	return Token{base64.RawURLEncoding.EncodeToString(raw[:])}, nil
}

// Reveal returns the token's text.
func (t Token) Reveal() string { return t.text }

// Digest returns the digest of the token's text.
func (t Token) Digest() Digest { return sha256.Sum256([]byte(t.text)) }

// String keeps the text out of logs and errors.
func (Token) String() string { return "[redacted]" }

// GoString keeps it out of %#v too.
func (Token) GoString() string { return "[redacted]" }
