// Package oidc has users signed in by OpenID providers: OpenID Connect Core 1.0, by the
// authorization code flow with PKCE.
//
// Start makes the address at which a provider asks its user, and a flow: a text, sealed under a
// secret of the installation, that the user's browser keeps in a cookie meanwhile. Nothing is kept
// here. Finish opens the flow, compares its state with the state that came back, redeems the code
// with the flow's verifier, and believes the provider's id token if its signature, issuer, audience,
// times and nonce are right. So a code that somebody else asked for, or that was taken from another
// browser, signs nobody in. That a sign-in counts once is for the store to see, by its nonce.
//
// A user who is signed in links an identity in the same way. The flow then also names the user
// and the session. The browser that got the flow as a cookie is the only one that can end the link.
//
// A provider is asked by https alone, and never at a private address, whatever its discovery says.
// Its redirects are not followed. Discovery is read when it is first needed and then kept, so a
// provider that is away keeps nobody else from signing in.
//
// Bounds: MaxIssuers issuers, Life for a flow, 10 seconds and 1 MiB for each answer of a provider, 32
// calls at a time for each provider, and one try in 5 seconds to read a discovery that failed.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"svc.internal/pkg/clock"
)

// Life is how long a user has to sign in at the provider.
const Life = 10 * time.Minute

// maxCode bounds a code, in bytes.
const maxCode = 4096

// Client signs users in at the issuers of an installation. It is safe for concurrent use.
type Client struct {
	names   []string // of the issuers, as they are set up
	issuers map[string]*provider
	flows   sealers
	clock   clock.Clock
}

// New makes a client. Flows are sealed under the first of the secrets and open under each. The secrets
// serve nothing else. The transport is nil, for one that connects to
// public addresses alone, except in tests and for Development.
func New(issuers []Issuer, secrets [][]byte, c clock.Clock, transport http.RoundTripper) (*Client, error) {
	flows, err := newSealers(secrets)
	if err != nil {
		return nil, err
	}
	out := &Client{issuers: map[string]*provider{}, flows: flows, clock: c}
	client := newHTTP(transport)
	for _, one := range issuers {
		out.names = append(out.names, one.Name)
		out.issuers[one.Name] = newProvider(one, client, c)
	}
	return out, nil
}

// Names returns the names of the issuers in the order of the settings.
func (c *Client) Names() []string { return slices.Clone(c.names) }

// Started is a sign-in or a link that has begun.
type Started struct {
	// URL is where the browser goes, and Flow what it keeps meanwhile.
	URL  string
	Flow []byte
	// EndsAt is when the flow counts no longer.
	EndsAt time.Time
}

// Start begins a sign-in or a link. It fails with ErrUnknown and ErrAway.
func (c *Client) Start(ctx context.Context, name string, link Link) (Started, error) {
	p, ok := c.issuers[name]
	if !ok {
		return Started{}, ErrUnknown
	}
	leave, err := p.enter()
	if err != nil {
		return Started{}, err
	}
	defer leave()
	found, err := p.discover(ctx)
	if err != nil {
		return Started{}, err
	}
	ends := c.clock.Now().Add(Life)
	f := flow{name, fresh(), fresh(), fresh(), ends.Unix(), link}
	sealed, err := c.flows[0].seal(f)
	if err != nil {
		return Started{}, err
	}
	url := found.oauth.AuthCodeURL(f.State, gooidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier))
	return Started{URL: url, Flow: sealed, EndsAt: ends}, nil
}

// fresh is a text of at least 256 random bits, and long enough for a verifier of PKCE.
func fresh() string { return rand.Text() + rand.Text() }

// Returned is what a browser brings back from a provider.
type Returned struct {
	Name, State, Code string
	// Flow is what the browser has kept.
	Flow []byte
}

// Proven is whom a provider has signed in.
type Proven struct {
	Issuer, Subject string
	// Nonce is good for one sign-in, which must be before EndsAt.
	Nonce  [sha256.Size]byte
	EndsAt time.Time
	// Link is as it was at the start.
	Link Link
}

// Finish ends what Start has begun. It fails with ErrUnknown, ErrRefused and ErrAway.
func (c *Client) Finish(ctx context.Context, r Returned) (Proven, error) {
	p, ok := c.issuers[r.Name]
	if !ok {
		return Proven{}, ErrUnknown
	}
	f, ok := c.flows.open(r.Flow)
	switch {
	case !ok || f.Issuer != r.Name || subtle.ConstantTimeCompare([]byte(f.State), []byte(r.State)) != 1:
		return Proven{}, refused("it did not begin in this browser")
	case c.clock.Now().Unix() >= f.EndsAt:
		return Proven{}, refused("it took too long")
	case r.Code == "" || len(r.Code) > maxCode:
		return Proven{}, refused("the provider gave no code")
	}
	leave, err := p.enter()
	if err != nil {
		return Proven{}, err
	}
	defer leave()
	found, err := p.discover(ctx)
	if err != nil {
		return Proven{}, err
	}
	raw, err := found.redeem(ctx, r.Code, f.Verifier)
	if err != nil {
		return Proven{}, err
	}
	subject, err := found.subject(ctx, raw, f.Nonce)
	if err != nil {
		return Proven{}, err
	}
	return Proven{Issuer: p.URL, Subject: subject, Nonce: sha256.Sum256([]byte(f.Nonce)),
		EndsAt: time.Unix(f.EndsAt, 0), Link: f.Link}, nil
}
