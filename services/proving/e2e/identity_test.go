package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/devcerts"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// dialAs connects to a process of a fleet with the certificate of a service in certs;
// without one if certs is empty.
func dialAs(t *testing.T, f *fleet.Fleet, process, server, certs, service string) *grpc.ClientConn {
	t.Helper()
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(f.CertDir(), devcerts.CAFile))
	if err != nil {
		t.Fatalf("read the CA: got the error %v, want none", err)
	}
	if !roots.AppendCertsFromPEM(text) {
		t.Fatal("read the CA: roots.AppendCertsFromPEM(text): got false, want true")
	}
	cfg := &tls.Config{RootCAs: roots, ServerName: server}
	if certs != "" {
		pair, err := tls.LoadX509KeyPair(devcerts.CertFile(certs, service), devcerts.KeyFile(certs, service))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	conn, err := grpc.NewClient(f.GRPCAddr(process), grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
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

func TestACallerIsWhoItsCertificateSaysAndMayCallWhatIsListed(t *testing.T) {
	f := trial.Shared(t).Fleet()
	own, stranger := f.CertDir(), t.TempDir()
	if err := devcerts.Write(stranger, devcerts.Leaf{File: fleet.Gateway, Services: []string{fleet.Gateway}}); err != nil {
		t.Fatal(err)
	}
	accrue := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := billingv1.NewAccrualServiceClient(conn).ListAccruals(ctx, &billingv1.ListAccrualsRequest{})
		return err
	}
	admit := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := billingv1.NewAdmissionServiceClient(conn).Admit(ctx, &billingv1.AdmitRequest{})
		return err
	}
	compare := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := settlementv1.NewReconciliationServiceClient(conn).Reconcile(ctx, &settlementv1.ReconcileRequest{})
		return err
	}
	issue := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := hubv1.NewProviderAdminServiceClient(conn).IssueProviderKey(ctx, &hubv1.IssueProviderKeyRequest{})
		return err
	}
	for _, c := range []struct {
		name, process, server, certs, caller string
		call                                 func(context.Context, *grpc.ClientConn) error
		want                                 codes.Code
	}{
		{"the gateway admits, badly", "billing-ledger-1", fleet.Billing, own, fleet.Gateway, admit, codes.InvalidArgument},
		{"the gateway reads accruals", "billing-ledger-2", fleet.Billing, own, fleet.Gateway, accrue, codes.PermissionDenied},
		{"the router admits", "billing-ledger-1", fleet.Billing, own, fleet.Router, admit, codes.PermissionDenied},
		{"settlement asks itself", "settlement-1", fleet.Settlement, own, fleet.Settlement, compare, codes.PermissionDenied},
		{"the gateway asks settlement", "settlement-2", fleet.Settlement, own, fleet.Gateway, compare, codes.OK},
		{"the router issues a provider key", "provider-hub-1", fleet.Hub, own, fleet.Router, issue, codes.PermissionDenied},
		{"nobody admits", "billing-ledger-1", fleet.Billing, "", "", admit, codes.Unavailable},
		{"another CA's gateway admits", "billing-ledger-1", fleet.Billing, stranger, fleet.Gateway, admit, codes.Unavailable},
		{"billing-ledger is taken for settlement", "billing-ledger-1", fleet.Settlement, own, fleet.Gateway,
			compare, codes.Unavailable},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		err := c.call(ctx, dialAs(t, f, c.process, c.server, c.certs, c.caller))
		cancel()
		if got := status.Code(err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
