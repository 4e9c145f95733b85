// Package operator decides who may call the operators' routes, and which of them.
//
// A caller shows a bearer token of one of three kinds. The token of an operator's session is
// checked with billing-ledger at each call, so an operator who is ended is refused at once. The
// token of a machine is known by a digest in the gateway's configuration, with a name and a
// role. A bootstrap token only makes the first operator, unless break-glass is on.
//
// The caller's name stands in the log line of the call, and the services keep the name in their
// audit entries. It is name@id for an operator, the configured name for a machine, and
// bootstrap.name for a bootstrap token. Only the name of an operator has an '@'.
//
// One table says what each route needs and what each role may do: see roles.go.
//
// Tokens of the configuration are compared by their digests and in constant time, so that
// the time of an answer reveals nothing of a token. Two tokens of one name are a rotation:
// both are good until one is taken out of the list. A network that tried too many wrong
// tokens or passwords has to wait, but not with a token that was good when it was last shown.
package operator

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Bounds of the list.
const (
	// MinToken is the least length of a token in bytes. 32 random bytes have at least
	// that length in any text form.
	MinToken = 32
	// MaxToken is the greatest length of a token in bytes, below the bound of
	// auth.Bearer.
	MaxToken = 256
	// MaxTokens bounds the list, because every request is compared with all of it.
	MaxTokens = 64
	// MaxName is the greatest length of a name in bytes. Behind bootstrapName it fits the actor
	// of an audit entry.
	MaxName = 48
)

// token is one entry of the list.
type token struct {
	name   string
	role   Role
	digest [sha256.Size]byte
}

// Tokens is a list of the configuration: of machines, or of bootstrap tokens.
type Tokens struct{ list []token }

// bootstrapName begins the names of bootstrap tokens.
const bootstrapName = "bootstrap."

// Parse reads bootstrap tokens: entries of the form name:token, separated by commas or line
// ends. It reports every fault by the place of its entry, and never names a token.
func Parse(text string) (Tokens, error) {
	return parse(text, func(entry string) (token, string) {
		name, secret, found := strings.Cut(entry, ":")
		switch {
		case !found:
			return token{}, "is not name:token"
		case !validName(name):
			return token{}, badName
		case len(secret) < MinToken || len(secret) > MaxToken:
			return token{}, fmt.Sprintf("(%s) has a token of %d bytes; it must have %d to %d", name, len(secret), MinToken,
				MaxToken)
		case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
			return token{}, "(" + name + ") has a token with a character that is not printable ASCII"
		}
		return token{bootstrapName + name, First, sha256.Sum256([]byte(secret))}, ""
	})
}

// ParseMachines reads entries of the form name:role:digest, separated by commas or line
// ends. The digest is the SHA-256 of a token in 64 hexadecimal digits.
func ParseMachines(text string) (Tokens, error) {
	return parse(text, func(entry string) (token, string) {
		name, rest, _ := strings.Cut(entry, ":")
		role, digits, found := strings.Cut(rest, ":")
		switch {
		case !found:
			return token{}, "is not name:role:sha256-of-token"
		case !validName(name):
			return token{}, badName
		case strings.HasPrefix(name, bootstrapName):
			return token{}, "(" + name + ") has a name that begins with bootstrap., which is for bootstrap tokens"
		}
		out := token{name: name}
		var known bool
		if out.role, known = ParseRole(role); !known {
			return token{}, "(" + name + ") has a role that is not viewer, support, treasurer or admin"
		}
		raw, err := hex.DecodeString(digits)
		if err != nil || len(raw) != sha256.Size {
			return token{}, "(" + name + ") has a digest that is not 64 hexadecimal digits"
		}
		out.digest = [sha256.Size]byte(raw)
		return out, ""
	})
}

// parse reads the entries of a list by one, which returns what is wrong with an entry.
func parse(text string, one func(entry string) (token, string)) (Tokens, error) {
	var out Tokens
	var faults []error
	entries := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' })
	for i, entry := range entries {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		next, wrong := one(entry)
		for _, other := range out.list {
			if wrong == "" && other.digest == next.digest {
				wrong = "(" + next.name + ") has the token of " + other.name + ": each entry needs its own"
			}
		}
		if wrong != "" {
			faults = append(faults, fmt.Errorf("entry %d %s", i+1, wrong))
			continue
		}
		out.list = append(out.list, next)
	}
	if len(out.list) > MaxTokens {
		faults = append(faults, fmt.Errorf("there are %d tokens; there may be %d", len(out.list), MaxTokens))
	}
	return out, errors.Join(faults...)
}

var badName = fmt.Sprintf("has a name that is not 1 to %d of a-z, 0-9, '.', '_' and '-'", MaxName)

func validName(name string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789._-"
	return name != "" && len(name) <= MaxName && strings.Trim(name, allowed) == ""
}

// Len is how many tokens there are.
func (t Tokens) Len() int { return len(t.list) }

// find returns who is behind the token of a digest. It compares with every entry.
func (t Tokens) find(digest [sha256.Size]byte) (found token, ok bool) {
	for i := range t.list {
		if subtle.ConstantTimeCompare(digest[:], t.list[i].digest[:]) == 1 {
			found, ok = t.list[i], true
		}
	}
	return found, ok
}
