package oidc

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"svc.internal/pkg/dialguard"
)

const (
	// timeout bounds one call of a provider, with the reading of its answer.
	timeout = 10 * time.Second
	// maxAnswer bounds an answer of a provider, in bytes.
	maxAnswer = 1 << 20
)

// errNotHTTPS says that a provider names an address that is not https.
var errNotHTTPS = errors.New("it is not https")

// newHTTP makes the client by which providers are called. The transport is nil for one that
// connects to public addresses alone.
func newHTTP(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = (&dialguard.Dialer{}).Client().Transport
	}
	return &http.Client{
		Transport: bounded{transport}, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Development returns a transport for New that connects to loopback, too. It takes the certificates
// that the authorities of a PEM text have signed, and no others. It is for a provider on a machine of
// one's own.
func Development(authorities []byte) (http.RoundTripper, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, errors.New("the authorities of OpenID providers are no PEM certificates")
	}
	return (&dialguard.Dialer{Allow: netip.Addr.IsLoopback, Authorities: pool}).Client().Transport, nil
}

// bounded bounds the bodies of answers, and calls by https alone.
type bounded struct{ through http.RoundTripper }

// RoundTrip makes one call.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errNotHTTPS
	}
	resp, err := b.through.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}
