// Package operator decides who may call the operators' routes.
//
// An operator shows a bearer token from the list in the gateway's configuration. Each
// token stands behind a name. The name stands in the log line of the call and goes to the
// services, which keep it in their audit entries as operator:name. Two tokens of one name
// are a rotation: both are good until one is taken out of the list. Every token of the
// list is compared by its digest and in constant time, so that the time of an answer
// reveals nothing of a token. A network that tried too many wrong tokens has to wait.
package operator

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"

	"svc.internal/pkg/address"
	"svc.internal/services/edge-gateway/internal/auth"
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
	// MaxName is the greatest length of a name in bytes.
	MaxName = 64
)

// token is one entry of the list.
type token struct {
	name   string
	digest [sha256.Size]byte
}

// Tokens is the list of operators' tokens.
type Tokens struct{ list []token }

// Parse reads entries of the form name:token, separated by commas or line ends. It
// reports every fault by the place of its entry, and never names a token.
func Parse(text string) (Tokens, error) {
	var out Tokens
	var faults []error
	entries := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' })
	for i, entry := range entries {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		name, secret, found := strings.Cut(entry, ":")
		refuse := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("entry %d "+format, append([]any{i + 1}, args...)...))
		}
		switch {
		case !found:
			refuse("is not name:token")
			continue
		case !validName(name):
			refuse("has a name that is not 1 to %d of a-z, 0-9, '.', '_', '-' and '@'", MaxName)
			continue
		case len(secret) < MinToken || len(secret) > MaxToken:
			refuse("(%s) has a token of %d bytes; it must have %d to %d", name, len(secret), MinToken, MaxToken)
			continue
		case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
			refuse("(%s) has a token with a character that is not printable ASCII", name)
			continue
		}
		digest := sha256.Sum256([]byte(secret))
		for _, other := range out.list {
			if other.digest == digest {
				refuse("(%s) has the token of %s: each entry needs its own", name, other.name)
			}
		}
		out.list = append(out.list, token{name, digest})
	}
	if len(out.list) > MaxTokens {
		faults = append(faults, fmt.Errorf("there are %d tokens; %d are the most", len(out.list), MaxTokens))
	}
	return out, errors.Join(faults...)
}

func validName(name string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789._-@"
	return name != "" && len(name) <= MaxName && strings.Trim(name, allowed) == ""
}

// Len is how many tokens there are.
func (t Tokens) Len() int { return len(t.list) }

// nameOf returns the name behind a token. It compares with every entry.
func (t Tokens) nameOf(secret string) (name string, ok bool) {
	given := sha256.Sum256([]byte(secret))
	for i := range t.list {
		if subtle.ConstantTimeCompare(given[:], t.list[i].digest[:]) == 1 {
			name, ok = t.list[i].name, true
		}
	}
	return name, ok
}

// Gate lets operators in.
type Gate struct {
	tokens  Tokens
	guesses *auth.Guesses
	clock   clock.Clock
}

// NewGate makes a gate. It lets each network try rate wrong tokens in a minute and
// remembers so many networks.
func NewGate(tokens Tokens, c clock.Clock, rate, networks int) *Gate {
	return &Gate{tokens: tokens, guesses: auth.NewGuesses(rate, networks), clock: c}
}

// Admit returns the name of the operator whose token the headers carry. It fails with
// unknown_route when there is no operator at all, missing_api_key, invalid_api_key, or
// rate_limit_exceeded for a network that guesses.
func (g *Gate) Admit(h http.Header, from netip.Addr) (name string, err error) {
	if g.tokens.Len() == 0 {
		return "", NotHere()
	}
	secret, err := auth.Bearer(h)
	if err != nil {
		return "", err
	}
	network, now := address.Network(from), g.clock.Now()
	leave, wait := g.guesses.Enter(network, now)
	if wait > 0 {
		return "", fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"Too many wrong operator tokens came from your address.").After(wait)
	}
	defer leave()
	name, ok := g.tokens.nameOf(secret)
	if !ok {
		g.guesses.Wrong(network, now)
		return "", fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "Incorrect operator token provided.")
	}
	return name, nil
}
