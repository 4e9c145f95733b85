package providerapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
)

// verdicts are the reasons that are about the key itself. No other failure says anything
// about the key, whatever its kind, because a fleet that is set up wrong must not make
// agents give up their keys.
var verdicts = []fault.Reason{
	fault.InvalidAPIKey, fault.KeyRevoked, fault.KeyExpired, apierror.MissingAPIKey, apierror.WrongKeyType,
}

func isVerdict(err error) bool {
	f, ok := fault.As(err)
	return ok && slices.Contains(verdicts, f.Reason)
}

// providerKey returns the digest of the provider key that a call carries.
func providerKey(c Call) (apikey.Digest, error) {
	key, err := auth.Credential(c.Header)
	if err != nil {
		return apikey.Digest{}, err
	}
	switch kind, ok := apikey.Parse(key); {
	case !ok:
		return apikey.Digest{}, auth.WrongKey()
	case kind != apikey.Provider:
		return apikey.Digest{}, fault.New(fault.Unauthenticated, apierror.WrongKeyType,
			"This is a consumer key; providers need a provider key.")
	}
	return apikey.Sum(key), nil
}

// withKey reads the members of a call's body and has a hub asked in the name of the
// provider whose key the call carries. What the hub finds of the key is remembered, and
// an error of the key comes before an error of the body.
func (a *API) withKey(
	ctx context.Context, c Call, ask func(context.Context, apikey.Digest) error, members ...member,
) error {
	digest, err := providerKey(c)
	if err != nil {
		return err
	}
	malformed := c.read(members...)
	if malformed != nil {
		ask = a.checkKey
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	err = a.peers.Auth.LookUp(c.From, a.kept.knows(digest), func() error { return ask(called, digest) })
	if isVerdict(err) {
		a.kept.forget(digest)
		return auth.Refused(err)
	}
	if err != nil {
		return ofPeer(ctx, err)
	}
	a.kept.know(digest)
	return malformed
}

// refuse returns why, if the key is good, and otherwise the error of the key.
func (a *API) refuse(ctx context.Context, digest apikey.Digest, why error) error {
	if err := a.checkKey(ctx, digest); err != nil {
		return err
	}
	return why
}

// checkKey returns nil for a key that a provider has.
func (a *API) checkKey(ctx context.Context, digest apikey.Digest) error {
	_, err := a.peers.Self.GetOwnStatus(ctx, &hubv1.GetOwnStatusRequest{KeyDigest: digest[:]})
	return err
}

// BySession reports whether a request carries a token that is no key.
func BySession(h http.Header) bool {
	token, err := auth.Bearer(h)
	return err == nil && !strings.HasPrefix(token, string(apikey.Provider)) &&
		!strings.HasPrefix(token, string(apikey.Consumer))
}

// user returns the user whose session token a call carries.
func (a *API) user(ctx context.Context, c Call) (*billingv1.User, error) {
	in, err := a.SignedIn(ctx, c.Header, c.From)
	return in.GetUser(), err
}

// SignedIn returns the user whose session token the headers of a request carry, with the
// user session. The token of a session that is over is session_expired and no guess. A
// token that nobody ever had, or whose session ended more than a day ago, is
// invalid_session.
func (a *API) SignedIn(ctx context.Context, header http.Header, from netip.Addr) (*billingv1.GetUserResponse, error) {
	token, err := auth.Bearer(header)
	if fault.Is(err, apierror.MissingAPIKey) {
		return nil, fault.New(fault.Unauthenticated, apierror.MissingAPIKey,
			"You didn't send a session's token. Sign in and send it in the header Authorization: Bearer YOUR_TOKEN.")
	}
	if err != nil {
		return nil, noSession()
	}
	if _, isKey := apikey.Parse(token); isKey {
		return nil, fault.New(fault.Unauthenticated, apierror.WrongKeyType,
			"This is an API key; sign in and send the session's token.")
	}
	digest := apikey.Sum(token) // as of bearerDigest
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	var resp *billingv1.GetUserResponse
	err = a.peers.Auth.LookUpToken(from, digest, func() (err error) {
		resp, err = a.peers.Users.GetUser(called, &billingv1.GetUserRequest{TokenDigest: digest[:]})
		return err
	})
	switch {
	case fault.Is(err, fault.SessionExpired):
		return nil, fault.New(fault.Unauthenticated, fault.SessionExpired, "The session is over. Sign in again.")
	case fault.Is(err, fault.InvalidSession):
		return nil, noSession()
	case err != nil:
		return nil, ofPeer(ctx, err)
	}
	return resp, nil
}

// bearerDigest returns the digest of the bearer token that headers carry.
func bearerDigest(header http.Header) (apikey.Digest, error) {
	token, err := auth.Bearer(header)
	if err != nil {
		return apikey.Digest{}, noSession()
	}
	return apikey.Sum(token), nil
}

func noSession() error {
	return fault.New(fault.Unauthenticated, fault.InvalidSession, "The session is over or was never begun. Sign in again.")
}
