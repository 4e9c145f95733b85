package session

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths of the texts that an agent says of itself, in characters.
const (
	minNodeID       = 8
	maxNodeID       = 64
	maxName         = 64
	maxVersion      = 32
	maxRegion       = 32
	maxQuantization = 32
	maxEngine       = 32
	maxRevision     = 64
	maxCapability   = 32
	maxChallengeID  = 64
)

// MaxModelID bounds the name of a model, in characters.
const MaxModelID = 200

// Clean keeps the first printable characters of a text that a provider says, at most
// limit, without space at either end.
func Clean(text string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == limit {
			break
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			continue
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimSpace(b.String())
}

// only reports whether text has low to high characters, each a letter or digit of ASCII
// or one of others.
func only(text string, low, high int, others string) bool {
	if len(text) < low || len(text) > high {
		return false
	}
	for i := range len(text) {
		c := text[i]
		alphanumeric := '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !alphanumeric && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

// ValidNodeID reports whether a text may name a node.
func ValidNodeID(id string) bool { return only(id, minNodeID, maxNodeID, "._-") }

// ValidChallengeID reports whether a text may name a challenge.
func ValidChallengeID(id string) bool { return only(id, 1, maxChallengeID, "._-") }

// ValidModelID reports whether a text may name a model.
func ValidModelID(id string) bool { return only(id, 1, MaxModelID, "._:/@+-") }
