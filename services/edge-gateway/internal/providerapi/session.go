package providerapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// The refresh token of a page of our site is in a cookie, which two routes read and no
// other: both are POST, and refuse whoever does not come from a page of ours. All else
// wants the token of the session as a bearer token, which no browser sends by itself. So a
// page of another site can make nobody do anything.
//
// A path of a cookie covers one of the routes, so the cookie is set twice.
const refreshCookie = "svc_refresh"

// The paths of the routes that read the cookie.
const (
	refreshPath = "/api/v1/user/refresh"
	logOutPath  = "/api/v1/user/logout"
)

var cookiePaths = []string{refreshPath, logOutPath}

// Bounds of what letters' readers send, in characters.
const maxLetterToken = 64

// ours reports whether a page of ours makes a call. Browsers say so in headers that no page
// can set. A call that has neither header comes from no page, or from an old browser.
func (a *API) ours(h http.Header) bool {
	origins := h.Values("Origin")
	return slices.Equal(h.Values("Sec-Fetch-Site"), []string{"same-origin"}) ||
		len(origins) == 1 && slices.Contains(a.cfg.Origins, origins[0])
}

// cookieOf returns the refresh token of a call. A call that has several, which only another
// site of the same domain can bring about, has none.
func cookieOf(h http.Header) string {
	found := (&http.Request{Header: h}).CookiesNamed(refreshCookie)
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

// setCookie sets the cookie; an empty token deletes it.
func setCookie(h http.Header, token string, expires time.Time) {
	for _, path := range cookiePaths {
		cookie := http.Cookie{ //nolint:gosec // it is secure, and a test looks at it
			Name: refreshCookie, Value: token, Path: path, Expires: expires, HttpOnly: true, Secure: true,
			SameSite: http.SameSiteLaxMode,
		}
		if token == "" {
			cookie.Expires, cookie.MaxAge = time.Time{}, -1
		}
		h.Add("Set-Cookie", cookie.String())
	}
}

// withCookie sets the cookie of an answer, if there is a refresh token.
func withCookie(out Answer, err error, token string, expires *time.Time) (Answer, error) {
	if err != nil || token == "" || expires == nil {
		return out, err
	}
	out.Header = http.Header{}
	setCookie(out.Header, token, *expires)
	return out, nil
}

// shownNetwork returns a caller's network as its user is shown it: rounded, so that it
// tells a city and no house.
func shownNetwork(from netip.Addr) string {
	bits := 24
	if from.Is6() {
		bits = 48
	}
	network, err := from.Prefix(bits)
	if err != nil {
		return ""
	}
	return network.String()
}

// done is the answer of a call that has nothing else to say.
type done struct {
	Message string `json:"message"`
}

// notOurs refuses a call that no page of ours makes.
func notOurs() error {
	return fault.New(fault.Denied, apierror.OriginNotAllowed,
		"Only a page of this site may use the session's cookie: the call has no Sec-Fetch-Site: same-origin, and no Origin "+
			"of this site.")
}

// Refresh answers POST /api/v1/user/refresh: a token for the cookie, and the next cookie.
func (a *API) Refresh(ctx context.Context, c Call) (Answer, error) {
	if !a.ours(c.Header) {
		return Answer{}, notOurs()
	}
	token := cookieOf(c.Header)
	if token == "" {
		return Answer{}, noSession()
	}
	var resp *billingv1.RefreshSessionResponse
	err := a.counted(ctx, a.refreshes, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.RefreshSession(ctx, &billingv1.RefreshSessionRequest{RefreshToken: token,
			NetworkShown: shownNetwork(c.From)})
		return err
	})
	if fault.Is(err, fault.InvalidSession) || fault.Is(err, fault.SessionExpired) {
		return Answer{}, noSession()
	}
	if err != nil {
		return Answer{}, err
	}
	out, err := answer(http.StatusOK, session{Token: resp.GetToken(), ExpiresAt: moment(resp.GetExpiresAt()),
		User: userOf(resp.GetUser())})
	return withCookie(out, err, resp.GetRefreshToken(), moment(resp.GetRefreshExpiresAt()))
}

// LogOut answers POST /api/v1/user/logout: it ends the session of the bearer token, or of
// the cookie where there is no such token, or all sessions of its user.
func (a *API) LogOut(ctx context.Context, c Call) (Answer, error) {
	var everywhere bool
	req := &billingv1.EndSessionRequest{}
	token := cookieOf(c.Header)
	switch {
	case len(c.Header.Values("Authorization")) == 0 && token != "":
		if !a.ours(c.Header) {
			return Answer{}, notOurs()
		}
		digest := apikey.Sum(token)
		req.RefreshDigest = digest[:]
	default:
		if _, err := a.SignedIn(ctx, c.Header, c.From); err != nil {
			return Answer{}, err
		}
		digest, err := bearerDigest(c.Header)
		if err != nil {
			return Answer{}, err
		}
		req.TokenDigest = digest[:]
	}
	if err := c.read(member{name: "everywhere", flag: &everywhere}); err != nil {
		return Answer{}, err
	}
	req.Everywhere = everywhere
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if _, err := a.peers.Users.EndSession(called, req); err != nil && !fault.Is(err, fault.InvalidSession) {
		return Answer{}, ofPeer(ctx, err)
	}
	out, err := answer(http.StatusOK, done{"You are signed out."})
	out.Header = http.Header{}
	setCookie(out.Header, "", time.Time{})
	return out, err
}

// AskPasswordReset answers POST /api/v1/user/password/forgot: a letter goes to the e-mail
// address, if it has an account. The answer is the same for every address.
func (a *API) AskPasswordReset(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.AskPasswordResetRequest{}
	if err := c.read(member{name: "email", text: &req.Email, limit: maxText, required: true}); err != nil {
		return Answer{}, err
	}
	err := a.counted(ctx, a.letters, c, func(ctx context.Context) error {
		_, err := a.peers.Users.AskPasswordReset(ctx, req)
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	return answer(http.StatusOK, done{"If the address has an account, a letter is on its way."})
}

// ResetPassword answers POST /api/v1/user/password/reset: it sets a password by the token
// of a letter.
func (a *API) ResetPassword(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.ResetPasswordRequest{Network: NetworkOf(c.From)}
	err := c.read(
		member{name: "token", text: &req.Token, limit: maxLetterToken, required: true},
		member{name: "new_password", text: &req.NewPassword, limit: maxPassword, required: true})
	if err != nil {
		return Answer{}, err
	}
	return a.byLetter(ctx, c, func(ctx context.Context) error {
		_, err := a.peers.Users.ResetPassword(ctx, req)
		return err
	})
}

// ConfirmEmail answers POST /api/v1/user/email/confirm: it confirms an e-mail address by
// the token of a letter.
func (a *API) ConfirmEmail(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.ConfirmEmailRequest{}
	if err := c.read(member{name: "token", text: &req.Token, limit: maxLetterToken, required: true}); err != nil {
		return Answer{}, err
	}
	return a.byLetter(ctx, c, func(ctx context.Context) error {
		_, err := a.peers.Users.ConfirmEmail(ctx, req)
		return err
	})
}

// byLetter does what the token of a letter is for. Tries are counted by network.
func (a *API) byLetter(ctx context.Context, c Call, do func(context.Context) error) (Answer, error) {
	if err := a.counted(ctx, a.letterTokens, c, do); err != nil {
		return Answer{}, err
	}
	return answer(http.StatusOK, done{"It is done."})
}
