package oidc

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"svc.internal/pkg/clock"
)

const (
	// maxCalls bounds the calls for one provider at a time; more are refused, so a slow provider
	// takes no other's place.
	maxCalls = 32
	// retryInterval is the pause after a discovery that failed.
	retryInterval = 5 * time.Second
	// maxSubject bounds, in bytes, what a provider calls a user, as the table of identities does.
	maxSubject = 255
	// maxReason bounds, in bytes, what an error says of a provider's answer.
	maxReason = 200
)

// provider is an issuer with what it says of itself.
type provider struct {
	Issuer
	http  *http.Client
	clock clock.Clock
	// places are those of the calls that are under way.
	places chan struct{}
	// reading lets one call read the discovery, and guards retryAt, before which none does.
	reading chan struct{}
	retryAt time.Time
	found   atomic.Pointer[discovered]
}

// discovered is what an issuer says of itself.
type discovered struct {
	http     *http.Client
	oauth    *oauth2.Config
	verifier *gooidc.IDTokenVerifier
}

func newProvider(i Issuer, client *http.Client, c clock.Clock) *provider {
	return &provider{Issuer: i, http: client, clock: c, places: make(chan struct{}, maxCalls),
		reading: make(chan struct{}, 1)}
}

// enter takes a place, until leave is called.
func (p *provider) enter() (leave func(), err error) {
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }, nil
	default:
		return nil, fmt.Errorf("%w: %d calls are under way", ErrAway, maxCalls)
	}
}

// discover reads what the issuer says of itself, once. Callers that arrive meanwhile wait; each has
// a place, so there are few of them.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	if found := p.found.Load(); found != nil {
		return found, nil
	}
	select {
	case p.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrAway, ctx.Err())
	}
	defer func() { <-p.reading }()
	if found := p.found.Load(); found != nil {
		return found, nil
	}
	if p.clock.Now().Before(p.retryAt) {
		return nil, fmt.Errorf("%w: its discovery failed a moment ago", ErrAway)
	}
	// Its end is that of the HTTP client: a caller who leaves does not undo it for the others.
	found, err := p.read(gooidc.ClientContext(context.WithoutCancel(ctx), p.http))
	if err != nil {
		p.retryAt = p.clock.Now().Add(retryInterval)
		return nil, fmt.Errorf("%w: discovery: %s", ErrAway, shortened(err))
	}
	p.found.Store(found)
	return found, nil
}

func (p *provider) read(ctx context.Context) (*discovered, error) {
	found, err := gooidc.NewProvider(ctx, p.URL)
	if err != nil {
		return nil, err
	}
	var says struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&says); err != nil {
		return nil, err
	}
	endpoint := found.Endpoint()
	for _, one := range []string{endpoint.AuthURL, endpoint.TokenURL} {
		if to, err := url.Parse(one); err != nil || to.Scheme != "https" || to.Host == "" {
			return nil, errors.New("an endpoint is not https")
		}
	}
	// OpenID Connect Discovery has the header as the default. A library that finds out by trying
	// shows a code twice.
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(says.Methods) > 0 && !slices.Contains(says.Methods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &discovered{
		http: p.http,
		oauth: &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.Secret.Reveal(), Endpoint: endpoint,
			RedirectURL: p.RedirectURL, Scopes: []string{gooidc.ScopeOpenID}},
		verifier: found.Verifier(&gooidc.Config{ClientID: p.ClientID, Now: p.clock.Now}),
	}, nil
}

// shortened quotes at most maxReason bytes of an error, because the error may repeat what the
// provider answered.
func shortened(err error) string {
	text := err.Error()
	return fmt.Sprintf("%q", text[:min(len(text), maxReason)])
}

// redeem gives a code for an id token. Its errors do not say what the provider answered, because
// the answer may have secrets.
func (d *discovered) redeem(ctx context.Context, code, verifier string) (string, error) {
	token, err := d.oauth.Exchange(gooidc.ClientContext(ctx, d.http), code, oauth2.VerifierOption(verifier))
	var answer *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer) && refusesCode(answer):
		return "", refused("the provider does not take its code")
	case err != nil:
		return "", fmt.Errorf("%w: no token for the code", ErrAway)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return "", fmt.Errorf("%w: no id token for the code", ErrAway)
	}
	return raw, nil
}

// refusesCode reports whether a provider's answer refuses a code. A provider that does not know our
// client, or that we ask too often, has not looked at the code. Other answers by which the caller is
// at fault refuse it, whatever the provider calls it: else somebody who sends bad codes would pass
// for a provider that is away.
func refusesCode(answer *oauth2.RetrieveError) bool {
	status := answer.Response.StatusCode
	switch {
	case answer.ErrorCode == "invalid_client" || status == http.StatusTooManyRequests:
		return false
	case answer.ErrorCode == "invalid_grant":
		return true
	}
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError
}

// subject is whom an id token names, if it is of the provider, for us, in time and of the sign-in
// that has the nonce.
func (d *discovered) subject(ctx context.Context, raw, nonce string) (string, error) {
	token, err := d.verifier.Verify(gooidc.ClientContext(ctx, d.http), raw)
	if err != nil {
		return "", refused("its id token does not hold")
	}
	var says struct {
		Party string `json:"azp"`
	}
	switch err := token.Claims(&says); {
	case err != nil:
		return "", refused("its id token does not hold")
	case len(token.Audience) > 1 && says.Party != d.oauth.ClientID, says.Party != "" && says.Party != d.oauth.ClientID:
		return "", refused("its id token was made for another client")
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1:
		return "", refused("its id token is of another sign-in")
	case token.Subject == "" || len(token.Subject) > maxSubject:
		return "", refused("its id token names nobody")
	}
	return token.Subject, nil
}
