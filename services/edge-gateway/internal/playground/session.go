package playground

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"

	"svc.internal/pkg/fault"
)

// CookieName is the name of the cookie with a session's secret.
const CookieName = "svc_playground"

const (
	secretBytes = 32
	cookiePath  = "/v1/playground"
)

// cookie returns the cookie of a session. A browser sends it to the playground alone, and
// never from a page of another site. The browser counts its time, because the browser's clock may be
// wrong. Without TLS, browsers keep a secure cookie of localhost, and most of them one of 127.0.0.1;
// Safari keeps neither.
func cookie(secret []byte, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: CookieName, Value: base64.RawURLEncoding.EncodeToString(secret), Path: cookiePath,
		MaxAge: max(1, int(life.Seconds())), HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	}
}

// sessionOf returns the SHA-256 of the secret in a request's cookie. A request that has
// several cookies of the name, which only another site of the same domain can bring about,
// has none.
func sessionOf(h http.Header) ([]byte, error) {
	found := (&http.Request{Header: h}).CookiesNamed(CookieName)
	if len(found) != 1 {
		return nil, NoSession()
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(found[0].Value)
	if err != nil || len(secret) != secretBytes {
		return nil, NoSession()
	}
	sum := sha256.Sum256(secret)
	return sum[:], nil
}

// NoSession is the refusal of a visitor without a live session.
func NoSession() error {
	return fault.New(fault.Unauthenticated, fault.InvalidSession,
		"You have no playground session, it has expired, or it was opened from another network. "+
			"GET /v1/playground/models opens a session and sets its cookie.")
}

// Check refuses a request whose cookie cannot be that of a session.
func Check(h http.Header) error {
	_, err := sessionOf(h)
	return err
}
