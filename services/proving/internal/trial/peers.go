package trial

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/node"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
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

// OpenPenalty has a service open a penalty.
func (p *Peers) OpenPenalty(t testing.TB, as string, req *settlementv1.OpenPenaltyRequest) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	_, err := settlementv1.NewPenaltyServiceClient(p.Dial(t, node.Settlement, as)).OpenPenalty(ctx, req)
	return err
}

// PenaltyOf is what the verifier says to open a penalty of a provider for a model.
func PenaltyOf(t testing.TB, provider, model string, basisPoints int32) *settlementv1.OpenPenaltyRequest {
	t.Helper()
	id, err := ids.NewEntry(time.Now(), rand.Reader) // as good as any UUID of version 7
	if err != nil {
		t.Fatal(err)
	}
	evidence := sha256.Sum256([]byte(provider))
	return &settlementv1.OpenPenaltyRequest{PenaltyId: id.String(), ProviderId: provider, ModelId: model,
		Kind: "misrepresentation", ShareBasisPoints: basisPoints, Summary: "another model answered",
		EvidenceHash: evidence[:]}
}
