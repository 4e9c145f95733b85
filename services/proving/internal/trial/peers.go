package trial

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/node"
)

// Peers are other processes that reach the services of a marketplace, each as the service that its certificate names.
type Peers struct{ address, certs string }

// marketplace is the name of the certificate of the marketplace itself.
const marketplace = "marketplace"

// NewPeers makes the certificate of a marketplace that will start with Environ.
func NewPeers(t testing.TB) *Peers {
	t.Helper()
	p := &Peers{address: FreeAddress(t), certs: t.TempDir()}
	names := append(node.Names(), bus.HubName(node.DefaultHub))
	if err := devcerts.Write(p.certs, devcerts.Leaf{File: marketplace, Services: names}); err != nil {
		t.Fatal(err)
	}
	return p
}

// Environ are the variables by which a marketplace listens for them.
func (p *Peers) Environ() []string {
	return []string{"SVC_GRPC_ADDR=" + p.address, "SVC_TLS_CERT=" + devcerts.CertFile(p.certs, marketplace),
		"SVC_TLS_KEY=" + devcerts.KeyFile(p.certs, marketplace), "SVC_TLS_CA=" + filepath.Join(p.certs, devcerts.CAFile)}
}

// Dial connects to a service as another one.
func (p *Peers) Dial(t testing.TB, service, as string) *grpc.ClientConn {
	t.Helper()
	if err := devcerts.Write(p.certs, devcerts.Leaf{File: as, Services: []string{as}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.certs, devcerts.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	pair, err := tls.LoadX509KeyPair(devcerts.CertFile(p.certs, as), devcerts.KeyFile(p.certs, as))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(p.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: roots, ServerName: service, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}
