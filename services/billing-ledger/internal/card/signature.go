package card

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// Tolerance is how far the time of a signature may be from ours.
	Tolerance = 5 * time.Minute
	// MaxSignature bounds the header, in bytes, and maxSignatures the signatures in it.
	MaxSignature  = 1024
	maxSignatures = 8
	// MinSecret is the least length of a secret, in bytes.
	MinSecret = 16
)

// ErrSignature is the error for a signature that does not count.
var ErrSignature = errors.New("the signature does not count")

// Keys are the secrets of webhooks. Each of them verifies, so that a secret can be
// replaced while events are under way; the first signs.
type Keys struct{ secrets [][]byte }

// NewKeys returns keys of one or two secrets. A secret that anybody can guess would let
// anybody send events, so an empty one is refused.
func NewKeys(secrets ...string) (Keys, error) {
	if len(secrets) == 0 || len(secrets) > 2 {
		return Keys{}, fmt.Errorf("webhooks have one secret or two, not %d", len(secrets))
	}
	var k Keys
	for _, s := range secrets {
		if len(s) < MinSecret {
			return Keys{}, fmt.Errorf("a secret of webhooks has at least %d bytes", MinSecret)
		}
		k.secrets = append(k.secrets, []byte(s))
	}
	return k, nil
}

// Sign returns the header of a body that is sent now.
func (k Keys) Sign(body []byte, now time.Time) string {
	at := strconv.FormatInt(now.Unix(), 10)
	return "t=" + at + ",v1=" + hex.EncodeToString(sign(k.secrets[0], at, body))
}

func sign(secret []byte, at string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(at))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}

// Verify returns ErrSignature unless the header signs the body with one of the secrets, at
// most Tolerance before or after now.
func (k Keys) Verify(header string, body []byte, now time.Time) error {
	at, signatures, err := parseSignature(header)
	if err != nil {
		return err
	}
	// The text is signed, so it is verified as it came.
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: its time is no number", ErrSignature)
	}
	if d := now.Unix() - seconds; d > int64(Tolerance/time.Second) || d < -int64(Tolerance/time.Second) {
		return fmt.Errorf("%w: it is of another time", ErrSignature)
	}
	ok := false
	for _, secret := range k.secrets {
		want := sign(secret, at, body)
		for _, s := range signatures {
			ok = hmac.Equal(s, want) || ok
		}
	}
	if !ok {
		return fmt.Errorf("%w: no secret made it", ErrSignature)
	}
	return nil
}

// parseSignature reads t=seconds,v1=hex[,v1=hex…]. Parts of other versions are skipped.
func parseSignature(header string) (at string, signatures [][]byte, err error) {
	if len(header) > MaxSignature {
		return "", nil, fmt.Errorf("%w: it is too long", ErrSignature)
	}
	for part := range strings.SplitSeq(header, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok:
			return "", nil, fmt.Errorf("%w: it cannot be read", ErrSignature)
		case name == "t" && at != "", name == "t" && (value == "" || len(value) > 19):
			return "", nil, fmt.Errorf("%w: its time cannot be read", ErrSignature)
		case name == "t":
			at = value
		case name == "v1":
			s, err := hex.DecodeString(value)
			if err != nil || len(s) != sha256.Size || len(signatures) == maxSignatures {
				return "", nil, fmt.Errorf("%w: it cannot be read", ErrSignature)
			}
			signatures = append(signatures, s)
		}
	}
	if at == "" || len(signatures) == 0 {
		return "", nil, fmt.Errorf("%w: it has no time or no signature", ErrSignature)
	}
	return at, signatures, nil
}
