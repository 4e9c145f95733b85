package operator

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238's default, and the only hash that all authenticators know
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// Codes are those of RFC 6238 with its defaults: six digits of HMAC-SHA-1 for steps of 30
// seconds. The codes of the step before and of the next one are taken too, for clocks
// that differ.
const (
	codeDigits  = 6
	codePeriod  = 30 * time.Second
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
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(s.raw[:])
}

// URI returns the address that authenticators read from a QR code.
func (s Secret) URI(name Name) string {
	q := url.Values{"secret": {s.Reveal()}, "issuer": {issuer}, "algorithm": {"SHA1"},
		"digits": {fmt.Sprint(codeDigits)}, "period": {fmt.Sprint(int(codePeriod.Seconds()))}}
	return "otpauth://totp/" + issuer + ":" + url.PathEscape(string(name)) + "?" + q.Encode()
}

// String keeps the secret out of logs and errors.
func (Secret) String() string { return "[redacted]" }

// GoString keeps it out of %#v too.
func (Secret) GoString() string { return "[redacted]" }

// stepOf returns the step of a moment.
func stepOf(at time.Time) int64 { return at.Unix() / int64(codePeriod.Seconds()) }

// truncated is the number of a step of which a code shows the last digits.
func truncated(secret []byte, step int64) uint32 {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	mac := hmac.New(sha1.New, secret)
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0x0f
	return binary.BigEndian.Uint32(sum[at:]) &^ (1 << 31)
}

// code returns the code of a step.
func (s Secret) code(step int64) string {
	const modulus = 1_000_000 // of codeDigits
	return fmt.Sprintf("%0*d", codeDigits, truncated(s.raw[:], step)%modulus)
}

// match returns the step of a code that is good at a moment. It compares with every step in
// constant time.
func (s Secret) match(code string, now time.Time) (step int64, ok bool) {
	for at := stepOf(now) - codeSkew; at <= stepOf(now)+codeSkew; at++ {
		if subtle.ConstantTimeCompare([]byte(s.code(at)), []byte(code)) == 1 {
			step, ok = at, true
		}
	}
	return step, ok
}

// isCode reports whether a text has the form of a code.
func isCode(text string) bool {
	return len(text) == codeDigits && strings.Trim(text, "0123456789") == ""
}
