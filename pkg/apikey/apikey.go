// Package apikey makes and checks consumer and provider keys.
//
// A key is a prefix and 40 base62 characters: 34 random ones (202 bits) and 6 that are
// the CRC-32 of all before them, so that a mistyped or made-up key is refused without a
// look-up. Nothing stores the key itself. Services exchange its SHA-256, and stores keep
// the HMAC-SHA-256 of that under a server pepper. A stolen database is worthless without
// the pepper, and a stolen message cannot be turned back into a key.
package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"svc.internal/pkg/config"
)

// Prefix says whether a key is a consumer's or a provider's.
type Prefix string

// The two kinds of keys.
const (
	Consumer Prefix = "sk-svc-"
	Provider Prefix = "sk-prov-"
)

const (
	alphabet     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	randomChars  = 34
	checkChars   = 6
	shownChars   = 12
	pepperLength = 32
)

// Digest is the SHA-256 of a key's text, which services exchange.
type Digest [sha256.Size]byte

// Hash is the peppered form of a Digest, which stores keep.
type Hash [sha256.Size]byte

// Pepper is the server's secret of 32 bytes. It prints as redacted.
type Pepper [pepperLength]byte

// IsZero reports whether there is no pepper.
func (p Pepper) IsZero() bool { return p == Pepper{} }

// UnmarshalText reads a pepper from 64 hexadecimal digits, or from the file
// that "file:" names.
func (p *Pepper) UnmarshalText(text []byte) error {
	var secret config.Secret
	if err := secret.UnmarshalText(text); err != nil {
		return err
	}
	raw, err := hex.DecodeString(secret.Reveal())
	if err != nil || len(raw) != pepperLength {
		return errors.New("a pepper is 64 hexadecimal digits") // never its text
	}
	*p = Pepper(raw)
	return nil
}

// UnmarshalYAML is UnmarshalText for a configuration file.
func (p *Pepper) UnmarshalYAML(node *yaml.Node) error { return config.Text(node, p) }

// MarshalText hides the pepper. It writes nothing when there is none.
func (p Pepper) MarshalText() ([]byte, error) {
	if p.IsZero() {
		return nil, nil
	}
	return []byte("[redacted]"), nil
}

// String hides the pepper.
func (Pepper) String() string { return "[redacted]" }

// GoString hides the pepper.
func (Pepper) GoString() string { return "[redacted]" }

// Generate makes a new key with randomness from random.
func Generate(prefix Prefix, random io.Reader) (string, error) {
	body := make([]byte, 0, randomChars)
	var buf [64]byte
	for len(body) < randomChars {
		if _, err := io.ReadFull(random, buf[:]); err != nil {
			return "", fmt.Errorf("read randomness for a key: %w", err)
		}
		for _, b := range buf {
			// 248 is the largest multiple of 62 in a byte. Larger bytes would favour the
			// first characters.
			if b < 248 && len(body) < randomChars {
				body = append(body, alphabet[b%62])
			}
		}
	}
	text := string(prefix) + string(body)
	return text + checksum(text), nil
}

// Parse returns the prefix of a key's text. It returns false for a text that cannot have
// come from Generate.
func Parse(text string) (Prefix, bool) {
	for _, prefix := range []Prefix{Consumer, Provider} {
		rest, found := strings.CutPrefix(text, string(prefix))
		if !found || len(rest) != randomChars+checkChars {
			continue
		}
		cut := len(text) - checkChars
		for i := range len(rest) {
			if !isBase62(rest[i]) {
				return "", false
			}
		}
		return prefix, checksum(text[:cut]) == text[cut:]
	}
	return "", false
}

// Sum returns the digest of a key.
func Sum(text string) Digest { return sha256.Sum256([]byte(text)) }

// Hash returns the peppered form of a digest.
func (p Pepper) Hash(d Digest) Hash {
	mac := hmac.New(sha256.New, p[:])
	mac.Write(d[:])
	return Hash(mac.Sum(nil))
}

// Shown returns the part of a key that may be shown later: its first 12 characters.
func Shown(text string) string { return text[:min(shownChars, len(text))] }

func checksum(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	var out [checkChars]byte
	for i := checkChars - 1; i >= 0; i-- {
		out[i] = alphabet[sum%62]
		sum /= 62
	}
	return string(out[:])
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
