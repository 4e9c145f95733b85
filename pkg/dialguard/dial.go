package dialguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	dialTimeout    = 5 * time.Second
	headerTimeout  = 10 * time.Second
	maxHeaderBytes = 64 << 10
)

// Dialer connects to addresses that strangers name. It checks each address after the
// look-up, so that a name which resolves to a private address, or to a public one first
// and to a private one later, leads nowhere.
type Dialer struct {
	// Allow admits further addresses, for tests; nil admits none.
	Allow func(netip.Addr) bool
	// Port admits ports; nil admits all.
	Port func(uint16) bool
	// Resolver resolves names; nil means the system's.
	Resolver *net.Resolver
	// Authorities sign the certificates of servers; nil means the system's.
	Authorities *x509.CertPool
}

// DialContext connects, or fails with ErrPrivate or ErrPort.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, Resolver: d.Resolver, Control: d.control}
	return dialer.DialContext(ctx, network, address)
}

// control checks the address that a socket is about to connect to.
func (d *Dialer) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return ErrPrivate
	case Blocked(to.Addr()) && (d.Allow == nil || !d.Allow(to.Addr().Unmap())):
		return ErrPrivate
	case d.Port != nil && !d.Port(to.Port()):
		return ErrPort
	}
	return nil
}

// Client returns an HTTP client that connects by the dialer alone. It follows no
// redirects, uses no proxy of the environment and keeps no connection.
func (d *Dialer) Client() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: d.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: d.Authorities},
			TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: headerTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes, DisableKeepAlives: true, DisableCompression: true,
		},
	}
}
