package chaos

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"svc.internal/pkg/devcerts"
)

// dial connects to the first process of a service with the certificate of another one, as which it is called.
func (m *market) dial(as, service string) (*grpc.ClientConn, error) {
	certs := m.fleet.CertDir()
	text, err := os.ReadFile(filepath.Join(certs, devcerts.CAFile))
	if err != nil {
		return nil, fmt.Errorf("call %s as %s: %w", service, as, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	pair, err := tls.LoadX509KeyPair(devcerts.CertFile(certs, as), devcerts.KeyFile(certs, as))
	if err != nil {
		return nil, fmt.Errorf("call %s as %s: %w", service, as, err)
	}
	conn, err := grpc.NewClient(m.fleet.GRPCAddr(m.fleet.Replicas(service)[0]), grpc.WithTransportCredentials(
		credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: service,
			MinVersion: tls.VersionTLS13})))
	if err != nil {
		return nil, fmt.Errorf("call %s as %s: %w", service, as, err)
	}
	return conn, nil
}
