package operator

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// SessionPath is the route of an operator's session, and RefreshPath that by which a page of ours gets
// the token of its session again.
const (
	SessionPath = "/api/v1/admin/session"
	RefreshPath = SessionPath + "/refresh"
)

// sessionCookie keeps the token of a session for the pages of this listener, which lose what they
// remember when they are loaded anew. RefreshPath reads it, and no other route. All else wants the token
// as a bearer token, which no browser sends by itself, so a page of another site can make an operator do
// nothing.
//
// Cookies know no ports: a browser sends this one to every port of the listener's host, where the path
// is SessionPath or below it. Nothing that an operator does not trust may listen on that host.
const sessionCookie = "svc_operator"

// SetCookie has a page's browser keep a token until a time.
func SetCookie(h http.Header, token string, expires time.Time) {
	h.Add("Set-Cookie", cookie(token, expires, 0))
}

// DeleteCookie has a page's browser forget the token.
func DeleteCookie(h http.Header) { h.Add("Set-Cookie", cookie("", time.Time{}, -1)) }

func cookie(token string, expires time.Time, maxAge int) string {
	c := http.Cookie{
		Name: sessionCookie, Value: token, Path: SessionPath, Expires: expires, MaxAge: maxAge, HttpOnly: true,
		Secure: true, SameSite: http.SameSiteStrictMode,
	}
	return c.String()
}

// Refreshed is a session as a page gets it again.
type Refreshed struct {
	Operator  *billingv1.Operator
	Token     string
	ExpiresAt time.Time
}

// Refresh returns the session of the cookie in a page's headers. The token stays the same. A token that
// is wrong is a guess, as for Admit. Refresh fails with invalid_session where there is not exactly one
// cookie and where the session is over, with rate_limit_exceeded for a network that guesses, and
// Unavailable. over reports that the cookie's session is over or never was, so that the cookie is of no
// use.
func (g *Gate) Refresh(ctx context.Context, h http.Header, from netip.Addr) (in Refreshed, over bool, err error) {
	found := (&http.Request{Header: h}).CookiesNamed(sessionCookie)
	if len(found) != 1 {
		return Refreshed{}, false, noSession(nil)
	}
	in.Token = found[0].Value
	digest := sha256.Sum256([]byte(in.Token))
	err = g.guesses.LookUpToken(from, digest, func() error {
		if !isSession(in.Token) {
			return noSession(nil)
		}
		resp, err := g.authenticate(ctx, digest)
		if err != nil {
			return err
		}
		in.Operator, in.ExpiresAt = resp.GetOperator(), resp.GetExpiresAt().AsTime()
		return nil
	})
	if f, ok := fault.As(err); ok && f.Kind == fault.Unauthenticated {
		return Refreshed{}, true, noSession(err)
	}
	return in, false, err
}

func noSession(cause error) error {
	return fault.Wrap(cause, fault.Unauthenticated, fault.InvalidSession, "There is no session. Sign in.")
}
