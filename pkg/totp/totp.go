// Package totp makes the codes of RFC 6238 with its defaults: six digits of HMAC-SHA-1 for steps of 30 seconds.
package totp

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238's default, and the only hash that all authenticators know
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"
)

// Digits is the length of a code.
const Digits = 6

// Period is how long a step lasts.
const Period = 30 * time.Second

// Encoding is the form in which authenticators take a secret.
var Encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// Step returns the step of a moment.
func Step(at time.Time) int64 { return at.Unix() / int64(Period.Seconds()) }

// Code returns the code of a step.
func Code(secret []byte, step int64) string {
	const modulus = 1_000_000 // of Digits
	return fmt.Sprintf("%0*d", Digits, truncated(secret, step)%modulus)
}

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
