package operator

import (
	"crypto/subtle"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"svc.internal/pkg/totp"
)

// Codes are those of package totp. The codes of the step before and of the next one are taken
// too, for clocks that differ.
const (
	codeSkew    = 1
	secretBytes = 20 // as RFC 4226 recommends
	// issuer is what authenticators show above the name.
	issuer = "svc"
)

// Secret makes an operator's codes. It prints as redacted.
type Secret struct{ raw [secretBytes]byte }

// newSecret makes a secret.
func newSecret(random io.Reader) (s Secret, err error) {
	if _, err := io.ReadFull(random, s.raw[:]); err != nil {
		return Secret{}, fmt.Errorf("read randomness for the secret of codes: %w", err)
	}
	return s, nil
}

// Reveal returns the secret in base32, for the one answer that shows it.
func (s Secret) Reveal() string {
	return totp.Encoding.EncodeToString(s.raw[:])
}

// URI returns the address that authenticators read from a QR code.
func (s Secret) URI(name Name) string {
	q := url.Values{"secret": {s.Reveal()}, "issuer": {issuer}, "algorithm": {"SHA1"},
		"digits": {fmt.Sprint(totp.Digits)}, "period": {fmt.Sprint(int(totp.Period.Seconds()))}}
	return "otpauth://totp/" + issuer + ":" + url.PathEscape(string(name)) + "?" + q.Encode()
}

// String keeps the secret out of logs and errors.
func (Secret) String() string { return "[redacted]" }

// GoString keeps it out of %#v too.
func (Secret) GoString() string { return "[redacted]" }

// code returns the code of a step.
func (s Secret) code(step int64) string { return totp.Code(s.raw[:], step) }

// match returns the step of a code that is good at a moment. It compares with every step in
// constant time.
func (s Secret) match(code string, now time.Time) (step int64, ok bool) {
	for at := totp.Step(now) - codeSkew; at <= totp.Step(now)+codeSkew; at++ {
		if subtle.ConstantTimeCompare([]byte(s.code(at)), []byte(code)) == 1 {
			step, ok = at, true
		}
	}
	return step, ok
}

// isCode reports whether a text has the form of a code.
func isCode(text string) bool {
	return len(text) == totp.Digits && strings.Trim(text, "0123456789") == ""
}
