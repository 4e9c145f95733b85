package siwe

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Bounds of a challenge, in bytes.
const (
	maxDomain  = 255
	maxURI     = 2048
	maxPurpose = 256
	minNonce   = 8
	maxNonce   = 128
)

// Challenge is the text that a wallet signs to prove that its owner signs in.
type Challenge struct {
	// Domain is the host that asks for the signature, with a port unless it is the usual
	// one. Wallets show it.
	Domain  string
	Address Address
	// URI is what the signature is for.
	URI     string
	ChainID int64
	// Nonce is good for one signature: 8 to 128 letters and digits.
	Nonce               string
	IssuedAt, ExpiresAt time.Time
	// Purpose is a sentence for the wallet's owner, on one line.
	Purpose string
}

// Validate fails unless Message makes a text that a wallet reads as this challenge and as
// no other: every value must stay on its line.
func (c Challenge) Validate() error {
	switch {
	case c.Domain == "" || len(c.Domain) > maxDomain || !within(c.Domain, isDomain):
		return errors.New("the challenge's domain must be a host, with a port or without")
	case !validURI(c.URI):
		return errors.New("the challenge's URI must be absolute")
	case c.ChainID < 1:
		return errors.New("the challenge's chain must be positive")
	case len(c.Nonce) < minNonce || len(c.Nonce) > maxNonce || !within(c.Nonce, isAlphanumeric):
		return fmt.Errorf("the challenge's nonce must be %d to %d letters and digits", minNonce, maxNonce)
	case !c.ExpiresAt.After(c.IssuedAt):
		return errors.New("the challenge must expire after it is issued")
	case c.Purpose == "" || len(c.Purpose) > maxPurpose || !within(c.Purpose, isPrintable):
		return fmt.Errorf("the challenge's purpose must be 1 to %d printable ASCII characters in one line", maxPurpose)
	}
	return nil
}

// timeLayout is RFC 3339 as JavaScript writes it, in UTC.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Message is the challenge's text by EIP-4361, version 1. The text is signed as it is.
// Message does not check c; see Validate.
func Message(c Challenge) string {
	return fmt.Sprintf(`%s wants you to sign in with your Ethereum account:
%s

%s

URI: %s
Version: 1
Chain ID: %d
Nonce: %s
Issued At: %s
Expiration Time: %s`,
		c.Domain, c.Address, c.Purpose, c.URI, c.ChainID, c.Nonce,
		c.IssuedAt.UTC().Format(timeLayout), c.ExpiresAt.UTC().Format(timeLayout))
}

func validURI(text string) bool {
	if len(text) > maxURI || !within(text, isURI) {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && u.IsAbs() && u.Host != ""
}

func within(text string, allowed func(c byte) bool) bool {
	for i := range len(text) {
		if !allowed(text[i]) {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

func isDomain(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-._:[]", c) >= 0 }

func isURI(c byte) bool { return c > ' ' && c <= '~' }

func isPrintable(c byte) bool { return c >= ' ' && c <= '~' }
