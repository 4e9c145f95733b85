package providerapi

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"svc.internal/pkg/fault"
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

// notOurs refuses a call that no page of ours makes.
func notOurs() error {
	return fault.New(fault.Denied, apierror.OriginNotAllowed,
		"Only a page of this site may use the session's cookie: the call has no Sec-Fetch-Site: same-origin, and no Origin "+
			"of this site.")
}
