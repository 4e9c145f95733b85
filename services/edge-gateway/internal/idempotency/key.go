package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"mime"
	"net/http"

	"svc.internal/pkg/fault"
)

// Header is the request header with the key.
const Header = "Idempotency-Key"

// maxToken bounds an Idempotency-Key in characters.
const maxToken = 255

// Token is the text of an Idempotency-Key.
type Token string

// Digest is a SHA-256.
type Digest [sha256.Size]byte

func (t Token) digest() []byte {
	sum := sha256.Sum256([]byte(t))
	return sum[:]
}

// Given reports whether the headers have a key at all, well-formed or not.
func Given(h http.Header) bool { return len(h.Values(Header)) > 0 }

// ParseToken reads the key of a request. The key must stand once and have 1 to 255
// printable characters of ASCII.
func ParseToken(h http.Header) (Token, error) {
	values := h.Values(Header)
	if len(values) != 1 {
		return "", malformed("must be given once")
	}
	text := values[0]
	if text == "" || len(text) > maxToken {
		return "", malformed("must have 1 to %d characters", maxToken)
	}
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' {
			return "", malformed("must be printable ASCII")
		}
	}
	return Token(text), nil
}

func malformed(format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, Header+" "+format+".", args...).On(Header)
}

// Content is the digest of a request's route and body. A form counts by its parts and not
// by the boundary between them, because clients choose another boundary for each try.
func Content(route, contentType string, body []byte) Digest {
	parts := [][]byte{[]byte(route)}
	kind, params, err := mime.ParseMediaType(contentType)
	if boundary := params["boundary"]; err == nil && kind == "multipart/form-data" && boundary != "" {
		parts = append(parts, []byte(kind))
		parts = append(parts, bytes.Split(body, []byte("--"+boundary))...)
	} else {
		parts = append(parts, []byte(contentType), body)
	}
	sum := sha256.New()
	for _, part := range parts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write(part)
	}
	return Digest(sum.Sum(nil))
}
