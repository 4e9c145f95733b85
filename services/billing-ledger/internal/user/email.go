package user

import (
	"crypto/sha256"
	"errors"
	"strings"
)

// Bounds of an e-mail address in bytes, as RFC 5321 has them.
const (
	maxEmail = 254
	maxLocal = 64
	maxLabel = 63
)

// Email is an address as it is stored and compared: ASCII in lower case, without spaces
// around it. Nothing else is made equal: dots and the text after a plus belong to the
// address. A domain in other letters is written in its ASCII form (xn--), because two
// texts that look alike must not be two users.
type Email string

var errEmail = errors.New("must be an address like name@example.com, in ASCII and of at most 254 characters")

// ParseEmail reads an address.
func ParseEmail(text string) (Email, error) {
	if len(text) > 2*maxEmail {
		return "", errEmail
	}
	text = strings.Trim(text, " \t\r\n")
	local, domain, ok := strings.Cut(text, "@")
	if !ok || len(text) > maxEmail || len(local) > maxLocal {
		return "", errEmail
	}
	for part := range strings.SplitSeq(local, ".") {
		if part == "" || strings.ContainsFunc(part, notAtom) {
			return "", errEmail
		}
	}
	for part := range strings.SplitSeq(domain, ".") {
		if part == "" || len(part) > maxLabel || part[0] == '-' || part[len(part)-1] == '-' ||
			strings.ContainsFunc(part, notHost) {
			return "", errEmail
		}
	}
	return Email(strings.ToLower(text)), nil
}

// notAtom reports whether a local part may have the character only in quotes, if at all.
func notAtom(r rune) bool {
	return notHost(r) && !strings.ContainsRune("!#$%&'*+/=?^_`{|}~", r)
}

func notHost(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
}

// Digest identifies the e-mail where attempts are counted.
func (e Email) Digest() Digest { return sha256.Sum256([]byte(e)) }

func (e Email) local() string {
	local, _, _ := strings.Cut(string(e), "@")
	return local
}
