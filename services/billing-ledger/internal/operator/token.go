package operator

import (
	"crypto/sha256"
	"io"

	"svc.internal/services/billing-ledger/internal/user"
)

// What the tokens begin with, so that each is known by its looks and none is taken for
// another.
const (
	invitationPrefix   = "opi_"
	confirmationPrefix = "opc_"
	sessionPrefix      = "ops_"
)

// Token is a secret of 256 random bits. It prints as redacted. Reveal is for the one answer
// that shows it.
type Token struct{ text string }

func newToken(prefix string, random io.Reader) (Token, error) {
	t, err := user.NewToken(random)
	if err != nil {
		return Token{}, err
	}
	return Token{prefix + t.Reveal()}, nil
}

// Reveal returns the token's text.
func (t Token) Reveal() string { return t.text }

// digestOf returns the digest under which a token is stored.
func digestOf(text string) Digest { return sha256.Sum256([]byte(text)) }

// String keeps the text out of logs and errors.
func (Token) String() string { return "[redacted]" }

// GoString keeps it out of %#v too.
func (Token) GoString() string { return "[redacted]" }
