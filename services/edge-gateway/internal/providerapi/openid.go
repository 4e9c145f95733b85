package providerapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// A browser goes from the start to an OpenID provider, which sends it back to the callback. What
// ties both together is in a cookie, which the callback alone reads. The callback is a GET of
// another site's making, so it counts by the state in that cookie and nothing else.
const (
	flowCookie = "svc_oidc"
	flowPath   = "/api/v1/user/oidc/"
	// StartSuffix and CallbackSuffix end the paths of the routes of an issuer.
	StartSuffix    = "/start"
	CallbackSuffix = "/callback"
)

// Bounds of what a provider sends back, in bytes.
const (
	maxState    = 256
	maxCode     = 4096
	maxFlowText = 4096
)

// StartOpenID answers GET /api/v1/user/oidc/{issuer}/start: it sends a browser to an OpenID provider.
func (a *API) StartOpenID(ctx context.Context, c Call) (Answer, error) {
	issuer := strings.TrimSuffix(c.Rest, StartSuffix)
	var resp *billingv1.StartOpenIDResponse
	err := a.counted(ctx, a.userChallenges, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.StartOpenID(ctx, &billingv1.StartOpenIDRequest{Issuer: issuer})
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	out := Answer{Status: http.StatusSeeOther, Header: http.Header{"Location": {resp.GetUrl()}}, JSON: []byte("{}")}
	setFlow(out.Header, base64.RawURLEncoding.EncodeToString(resp.GetFlow()), resp.GetEndsAt().AsTime())
	return out, nil
}

// FinishOpenID answers GET /api/v1/user/oidc/{issuer}/callback: it signs in the user whom the provider
// names, by a cookie as that of signing in, and sends the browser to the site. A user who is seen for
// the first time counts as a sign-up. What is missing is for the ledger to refuse, which knows first
// whether there is such an issuer.
func (a *API) FinishOpenID(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.LogInOpenIDRequest{Issuer: strings.TrimSuffix(c.Rest, CallbackSuffix), State: c.Query.Get("state"),
		Code: c.Query.Get("code"), NetworkShown: shownNetwork(c.From), Flow: flowOf(c.Header)}
	if len(req.GetState()) > maxState || len(req.GetCode()) > maxCode {
		return Answer{}, fault.New(fault.Invalid, fault.InvalidRequest, notBegunHere)
	}
	now := a.peers.Clock.Now()
	full := a.userSigns.take(c.From, now)
	req.Open = full == nil
	var resp *billingv1.LogInOpenIDResponse
	err := a.counted(ctx, a.logIns, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.LogInOpenID(ctx, req)
		return err
	})
	if req.GetOpen() && !resp.GetOpened() {
		a.userSigns.giveBack(c.From, now)
	}
	switch {
	case full != nil && fault.Is(err, fault.UserNotFound):
		return Answer{}, full
	case fault.Is(err, fault.InvalidCredentials):
		return Answer{}, fault.Wrap(err, fault.Unauthenticated, fault.InvalidCredentials, notBegunHere)
	case err != nil:
		return Answer{}, err
	}
	out := Answer{Status: http.StatusSeeOther, Header: http.Header{"Location": {a.home()}}, JSON: []byte("{}")}
	setCookie(out.Header, resp.GetRefreshToken(), resp.GetRefreshExpiresAt().AsTime())
	setFlow(out.Header, "", time.Time{})
	return out, nil
}

// home is the page to which a browser goes that has signed in elsewhere.
func (a *API) home() string {
	if len(a.cfg.Origins) == 0 {
		return "/"
	}
	return a.cfg.Origins[0] + "/"
}

const notBegunHere = "The sign-in does not count: it did not begin in this browser, took longer than ten minutes, " +
	"was refused, or is done. Begin again."

// setFlow sets the cookie of a sign-in that is under way; an empty text deletes it.
func setFlow(h http.Header, text string, expires time.Time) {
	cookie := http.Cookie{ //nolint:gosec // it is secure, and a test looks at it
		Name: flowCookie, Value: text, Path: flowPath, Expires: expires, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteLaxMode,
	}
	if text == "" {
		cookie.Expires, cookie.MaxAge = time.Time{}, -1
	}
	h.Add("Set-Cookie", cookie.String())
}

// flowOf returns what ties a callback to its start; nil for none, and for several.
func flowOf(h http.Header) []byte {
	found := (&http.Request{Header: h}).CookiesNamed(flowCookie)
	if len(found) != 1 || len(found[0].Value) > maxFlowText {
		return nil
	}
	flow, err := base64.RawURLEncoding.DecodeString(found[0].Value)
	if err != nil {
		return nil
	}
	return flow
}
