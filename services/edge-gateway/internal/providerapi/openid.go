package providerapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/edge-gateway/internal/apierror"
)

// A browser goes from the start to an OpenID provider, which sends it back to the callback. What
// ties both together is in a cookie, which the callback alone reads. The callback is a GET of
// another site's making, so it counts by the state in that cookie and nothing else. The prefix of
// the cookie's name has browsers take it from this host alone, so that no other host of the same
// domain plants a flow of its own.
const (
	flowCookie = "__Host-svc_oidc"
	flowPath   = "/" // as the prefix demands
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
// Only a browser that a user navigates may start: else a page of another site could use up the starts
// of its visitors' networks, and their flows.
func (a *API) StartOpenID(ctx context.Context, c Call) (Answer, error) {
	out, err := a.startOpenID(ctx, c)
	return a.atPage(c, out, err)
}

func (a *API) startOpenID(ctx context.Context, c Call) (Answer, error) {
	if !navigatesHere(c.Header) {
		return Answer{}, fault.New(fault.Denied, apierror.OriginNotAllowed,
			"A sign-in begins in a browser that goes to this address, not in a page of another site or a script.")
	}
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

// LinkOpenID answers POST /api/v1/user/me/identities/oidc/{issuer}: where the browser of the user who
// is signed in goes to link an identity of an OpenID provider. What billing-ledger seals into the
// cookie names the user and the session, and the callback takes the link from nothing else. So nobody
// ends a link of another user, or in another browser. A page of ours must ask: a page of another site
// would have its visitors' identities linked to a user of its own.
func (a *API) LinkOpenID(ctx context.Context, c Call) (Answer, error) {
	in, err := a.SignedIn(ctx, c.Header, c.From)
	if err != nil {
		return Answer{}, err
	}
	if !a.ours(c.Header) {
		return Answer{}, fault.New(fault.Denied, apierror.OriginNotAllowed,
			"Only a page of this site may link an identity: the call has no Sec-Fetch-Site: same-origin, and no Origin of "+
				"this site.")
	}
	if err := c.read(); err != nil {
		return Answer{}, err
	}
	req := &billingv1.StartOpenIDLinkRequest{Issuer: c.Rest, UserId: in.GetUser().GetUserId(),
		SessionId: in.GetSessionId()}
	var resp *billingv1.StartOpenIDLinkResponse
	err = a.counted(ctx, a.userChallenges, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.StartOpenIDLink(ctx, req)
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	out, err := answer(http.StatusOK, struct {
		URL       string     `json:"url"`
		ExpiresAt *time.Time `json:"expires_at"`
	}{resp.GetUrl(), moment(resp.GetEndsAt())})
	if err != nil {
		return Answer{}, err
	}
	out.Header = http.Header{}
	setFlow(out.Header, base64.RawURLEncoding.EncodeToString(resp.GetFlow()), resp.GetEndsAt().AsTime())
	return out, nil
}

// FinishOpenID answers GET /api/v1/user/oidc/{issuer}/callback: it signs in the user whom the provider
// names, by a cookie as that of signing in, and sends the browser to the console. A user who is seen for
// the first time counts as a sign-up. What LinkOpenID has begun ends here too, and signs nobody in. A
// missing state, code or cookie is refused by billing-ledger, because an unknown issuer must be
// reported first.
func (a *API) FinishOpenID(ctx context.Context, c Call) (Answer, error) {
	out, err := a.finishOpenID(ctx, c)
	return a.atPage(c, out, err)
}

// atPage sends a browser whose sign-in or link failed to the console's page of signing in, which says why
// by the error's code. Nothing that came with the call is in the address of the page. Whoever does not
// show pages gets the error itself.
func (a *API) atPage(c Call, out Answer, err error) (Answer, error) {
	if err == nil || !strings.Contains(strings.Join(c.Header.Values("Accept"), ","), "text/html") {
		return out, err
	}
	code := url.QueryEscape(apierror.Of(err).KnownCode())
	return Answer{Status: http.StatusSeeOther, JSON: []byte("{}"), Shown: err,
		Header: http.Header{"Location": {a.page(signInPage) + "?error=" + code}}}, nil
}

func (a *API) finishOpenID(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.LogInOpenIDRequest{Issuer: strings.TrimSuffix(c.Rest, CallbackSuffix), State: c.Query.Get("state"),
		Code: c.Query.Get("code"), NetworkShown: shownNetwork(c.From), Flow: flowOf(c.Header)}
	if len(req.GetState()) > maxState || len(req.GetCode()) > maxCode || !utf8.ValidString(req.GetState()) ||
		!utf8.ValidString(req.GetCode()) {
		return Answer{}, fault.New(fault.Invalid, fault.InvalidRequest, notBegunHere)
	}
	now := a.peers.Clock.Now()
	var full error
	if tied(req) {
		full = a.userSigns.Take(c.From, now)
		req.Open = full == nil
	}
	resp, err := a.logInOpenID(ctx, c, req)
	if req.GetOpen() && !resp.GetOpened() {
		a.userSigns.GiveBack(c.From, now)
	}
	switch {
	case full != nil && fault.Is(err, fault.UserNotFound):
		return Answer{}, full
	case fault.Is(err, fault.InvalidCredentials):
		return Answer{}, fault.Wrap(err, fault.Unauthenticated, fault.InvalidCredentials, notBegunHere)
	case fault.Is(err, fault.AlreadyExists):
		return Answer{}, fault.Wrap(err, fault.Conflict, fault.AlreadyExists, "Another user signs in by this identity.")
	case err != nil:
		return Answer{}, err
	}
	out := Answer{Status: http.StatusSeeOther, Header: http.Header{"Location": {a.page(linkedPage)}}, JSON: []byte("{}")}
	if resp.GetLinked() == nil {
		out.Header.Set("Location", a.page(homePage))
		setCookie(out.Header, resp.GetRefreshToken(), resp.GetRefreshExpiresAt().AsTime())
	}
	setFlow(out.Header, "", time.Time{})
	return out, nil
}

// tied reports whether a callback has what ties it to its start.
func tied(req *billingv1.LogInOpenIDRequest) bool {
	return len(req.GetFlow()) > 0 && req.GetState() != ""
}

// logInOpenID asks billing-ledger. A callback that is tied to no start is not counted: it costs
// nothing, and a page of another site can have its visitors make any number of them. A callback with a
// code counts although the OpenID provider is away, because the provider may have been asked.
func (a *API) logInOpenID(
	ctx context.Context, c Call, req *billingv1.LogInOpenIDRequest,
) (resp *billingv1.LogInOpenIDResponse, err error) {
	ask := func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.LogInOpenID(ctx, req)
		return err
	}
	switch {
	case !tied(req):
		err = a.asked(ctx, ask)
	case req.GetCode() == "":
		err = a.counted(ctx, a.logIns, c, ask)
	default:
		err = a.countedBut(ctx, a.logIns, c, []fault.Kind{fault.Invalid}, ask)
	}
	return resp, err
}

// navigatesHere reports whether a browser goes to an address because its user follows a link of this
// site or enters the address. An old browser, and a program, say nothing of it.
func navigatesHere(h http.Header) bool {
	mode := h.Values("Sec-Fetch-Mode")
	return !slices.Contains(h.Values("Sec-Fetch-Site"), "cross-site") &&
		(len(mode) == 0 || slices.Equal(mode, []string{"navigate"}))
}

// The pages of the console to which a browser goes that comes from an OpenID provider: signed in, with an
// identity linked, and refused.
const (
	homePage   = "/app/"
	linkedPage = "/app/settings"
	signInPage = "/app/sign-in"
)

// page is the address of a page of the console.
func (a *API) page(path string) string {
	if len(a.cfg.Origins) == 0 {
		return path
	}
	return a.cfg.Origins[0] + path
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
