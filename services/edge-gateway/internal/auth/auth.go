// Package auth finds the account whose consumer key a request carries.
//
// A key's checksum is checked first, so that made-up keys cost nothing. Then its SHA-256
// is looked up in a bounded cache and, on a miss, at billing-ledger. A good key is
// remembered for a minute, a refusal for 5 s. A key is dropped at once when
// billing-ledger says on NATS that it has changed. Admission checks the key again, so a
// cache that is behind lets nobody spend. The number of unknown keys that one network may
// have looked up is bounded.
package auth

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// Principal is the key and the account that a request acts for.
type Principal struct {
	KeyID     string
	AccountID string
	// AccountTag is the name under which routers and hubs know the account; empty when
	// billing-ledger does not give it.
	AccountTag []byte
	// IncludeUsage shows the usage of answers with its cost, also where a request does not ask.
	IncludeUsage bool
	// Priority lets requests wait ahead of others for a provider.
	Priority bool
	// allowed is empty when the key may use every model.
	allowed   []string
	expiresAt time.Time // zero for never
}

// MayUse reports whether the key may use a model.
func (p *Principal) MayUse(modelID string) bool {
	return len(p.allowed) == 0 || slices.Contains(p.allowed, modelID)
}

// Restricted reports whether there are models that the key may not use.
func (p *Principal) Restricted() bool { return len(p.allowed) > 0 }

// Config bounds what is remembered.
type Config struct {
	// Known and Refused are how many keys are remembered.
	Known, Refused int
	// KnownFor and RefusedFor are how long they are remembered.
	KnownFor, RefusedFor time.Duration
	// Timeout bounds one look-up at billing-ledger.
	Timeout time.Duration
	// WrongKeys is how many wrong keys one network may have looked up in a minute, and
	// WrongKeyNetworks how many networks are remembered.
	WrongKeys, WrongKeyNetworks int
	// Tokens is how many tokens of sessions are remembered as good.
	Tokens int
	// MaxOptionalLookups is how many keys are looked up at a time for OptionalPrincipal.
	// OptionalLookupPause is how long none is looked up after billing-ledger did not
	// answer.
	MaxOptionalLookups  int
	OptionalLookupPause time.Duration
}

// Authenticator authenticates all requests of a gateway.
type Authenticator struct {
	keys  billingv1.KeyServiceClient
	clock clock.Clock
	cfg   Config
	cache *cache

	guesses  *Guesses
	optional optionalLookups
}

// New makes an authenticator with an empty cache.
func New(keys billingv1.KeyServiceClient, c clock.Clock, cfg Config) *Authenticator {
	return &Authenticator{
		keys: keys, clock: c, cfg: cfg, cache: newCache(cfg.Known, cfg.Refused),
		guesses: NewGuesses(cfg.guesses(c, fault.InvalidAPIKey, fault.InvalidSession)),
		optional: optionalLookups{
			limit: cfg.MaxOptionalLookups, pause: cfg.OptionalLookupPause,
			guesses: NewGuesses(cfg.guesses(c, fault.InvalidAPIKey)), under: map[apikey.Digest]*optionalLookup{},
		},
	}
}

// guesses returns the bounds on wrong credentials. wrong has the reasons that count.
func (c Config) guesses(k clock.Clock, wrong ...fault.Reason) GuessConfig {
	return GuessConfig{Rate: c.WrongKeys, Networks: c.WrongKeyNetworks, Tokens: c.Tokens, Wrong: wrong, Clock: k,
		Refusal: "Too many wrong API keys or session tokens came from your address."}
}

// maxKeyBytes is far above the length of any key; a longer text is not parsed.
const maxKeyBytes = 256

// Credential returns the key that the headers carry: that of Authorization: Bearer, or
// else of X-Api-Key. Its faults are missing_api_key and invalid_api_key.
func Credential(h http.Header) (string, error) {
	if values := h.Values("Authorization"); len(values) > 0 {
		scheme, key, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
		if len(values) > 1 || !strings.EqualFold(scheme, "bearer") {
			return "", WrongKey()
		}
		return bounded(strings.TrimSpace(key))
	}
	if values := h.Values("X-Api-Key"); len(values) > 0 {
		if len(values) > 1 {
			return "", WrongKey()
		}
		return bounded(strings.TrimSpace(values[0]))
	}
	return bounded("")
}

// Bearer returns the credential of Authorization: Bearer alone.
func Bearer(h http.Header) (string, error) {
	return Credential(http.Header{"Authorization": h["Authorization"]})
}

func bounded(key string) (string, error) {
	switch {
	case key == "":
		return "", fault.New(fault.Unauthenticated, apierror.MissingAPIKey,
			"You didn't provide an API key. Send it in the header Authorization: Bearer YOUR_KEY.")
	case len(key) > maxKeyBytes:
		return "", WrongKey()
	}
	return key, nil
}

// WrongKey returns the refusal of a key that nobody has.
func WrongKey() error {
	return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "Incorrect API key provided.")
}

// Authenticate returns the owner of the key that the headers of a request from an address
// carry. Its faults are the faults of the public table with status 401,
// rate_limit_exceeded when too many keys from that address's network were wrong, or
// Unavailable.
func (a *Authenticator) Authenticate(ctx context.Context, h http.Header, from netip.Addr) (*Principal, error) {
	return a.authenticate(ctx, h, from, 0)
}

// freshFor is how long a remembered key counts as good where no admission follows. Nobody
// else finds out there that the key was revoked, if the notice of it is lost.
const freshFor = time.Second

// AuthenticateAfresh is Authenticate for a request that billing-ledger does not admit,
// such as a request for a receipt or for a kept answer.
func (a *Authenticator) AuthenticateAfresh(ctx context.Context, h http.Header, from netip.Addr) (*Principal, error) {
	return a.authenticate(ctx, h, from, freshFor)
}

func (a *Authenticator) authenticate(
	ctx context.Context, h http.Header, from netip.Addr, age time.Duration,
) (*Principal, error) {
	digest, err := consumerKey(h)
	if err != nil {
		return nil, err
	}
	now := a.clock.Now()
	if e, found := a.cache.get(digest, now, age); found {
		return current(e.who, e.err, now)
	}
	var who *Principal
	err = a.LookUp(from, a.cache.knew(digest), func() (err error) {
		who, err = a.lookUp(ctx, digest)
		return err
	})
	return current(who, err, now)
}

// consumerKey returns the digest of the consumer key that the headers carry.
func consumerKey(h http.Header) (apikey.Digest, error) {
	key, err := Credential(h)
	if err != nil {
		return apikey.Digest{}, err
	}
	switch kind, ok := apikey.Parse(key); {
	case !ok:
		return apikey.Digest{}, WrongKey()
	case kind != apikey.Consumer:
		return apikey.Digest{}, fault.New(fault.Unauthenticated, apierror.WrongKeyType,
			"This is a provider key; the API needs a consumer key.")
	}
	return apikey.Sum(key), nil
}

// LookUp is Guesses.LookUp. Credentials of all kinds are counted together.
func (a *Authenticator) LookUp(from netip.Addr, known bool, ask func() error) error {
	return a.guesses.LookUp(from, known, ask)
}

// LookUpToken is Guesses.LookUpToken for the token of a session.
func (a *Authenticator) LookUpToken(from netip.Addr, token apikey.Digest, ask func() error) error {
	return a.guesses.LookUpToken(from, token, ask)
}

// lookUp asks billing-ledger and remembers the answer, unless a change of the key was
// announced meanwhile that the answer may have missed.
func (a *Authenticator) lookUp(ctx context.Context, digest apikey.Digest) (*Principal, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	generation, asked := a.cache.generation(), a.clock.Now()
	resp, err := a.keys.AuthenticateKey(ctx, &billingv1.AuthenticateKeyRequest{KeySha256: digest[:]})
	if err != nil {
		if f, ok := fault.As(err); ok && f.Kind == fault.Unauthenticated {
			err = Refused(f)
			a.cache.putRefused(digest, err, a.clock.Now().Add(a.cfg.RefusedFor), generation)
		}
		return nil, apierror.OfPeer(err)
	}
	who := &Principal{
		KeyID: resp.GetKeyId(), AccountID: resp.GetAccountId(), AccountTag: resp.GetAccountTag(),
		IncludeUsage: resp.GetIncludeUsage(), Priority: resp.GetPriority(), allowed: resp.GetAllowedModelIds(),
	}
	if resp.GetExpiresAt() != nil {
		who.expiresAt = resp.GetExpiresAt().AsTime()
	}
	a.cache.putKnown(digest, who, asked, a.clock.Now().Add(a.cfg.KnownFor), generation)
	return who, nil
}

// Refused gives the refusal of a key the words of this package.
func Refused(err error) error {
	f, _ := fault.As(err)
	switch {
	case f == nil:
		return WrongKey()
	case f.Reason == fault.KeyRevoked:
		return fault.New(fault.Unauthenticated, f.Reason, "This API key has been revoked.")
	case f.Reason == fault.KeyExpired:
		return expired()
	case f.Reason == apierror.MissingAPIKey, f.Reason == apierror.WrongKeyType:
		return err
	}
	return WrongKey()
}

func expired() error {
	return fault.New(fault.Unauthenticated, fault.KeyExpired, "This API key has expired.")
}

// current refuses a key that has expired, however fresh its look-up is.
func current(who *Principal, err error, now time.Time) (*Principal, error) {
	switch {
	case err != nil:
		return nil, err
	case !who.expiresAt.IsZero() && !now.Before(who.expiresAt):
		return nil, expired()
	}
	return who, nil
}

// Forget drops a remembered key.
func (a *Authenticator) Forget(keyID string) { a.cache.forget(keyID) }
