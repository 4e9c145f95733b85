package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/services/standalone/internal/fleet"
	"svc.internal/services/standalone/internal/trial"
)

// busAs connects to the fleet's NATS with the certificate of that file in certs,
// and without one if file is empty.
func busAs(f *fleet.Fleet, certs, file string, more ...nats.Option) (*nats.Conn, error) {
	text, err := os.ReadFile(filepath.Join(f.CertDir(), devcerts.CAFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	cfg := &tls.Config{RootCAs: roots, ServerName: bus.ServerName, MinVersion: tls.VersionTLS12}
	if file != "" {
		pair, err := tls.LoadX509KeyPair(devcerts.CertFile(certs, file), devcerts.KeyFile(certs, file))
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return nats.Connect(f.NATSURL(), append(more, nats.Secure(cfg),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
}

// refusedAt reports whether the server refuses what nc publishes on subject.
func refusedAt(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	if err := errors.Join(nc.Publish(subject, []byte("forged")), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	err := nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), strconv.Quote(subject))
}

func TestTheFleetsBusTakesNothingFromAnybodyElse(t *testing.T) {
	f := trial.Shared(t).Fleet()
	stranger := t.TempDir()
	if err := devcerts.Write(stranger, devcerts.Leaf{File: fleet.Billing, Services: []string{fleet.Billing}}); err != nil {
		t.Fatal(err)
	}
	if err := devcerts.Write(f.CertDir(), devcerts.Leaf{File: "any-hub", Services: []string{fleet.Hub}}); err != nil {
		t.Fatal(err)
	}
	for name, connect := range map[string]func() (*nats.Conn, error){
		"without TLS": func() (*nats.Conn, error) {
			return nats.Connect("nats://" + strings.TrimPrefix(f.NATSURL(), "tls://"))
		},
		"without a certificate": func() (*nats.Conn, error) { return busAs(f, "", "") },
		"with a user's name and no certificate": func() (*nats.Conn, error) {
			return busAs(f, "", "", nats.UserInfo(fleet.Billing, ""))
		},
		"another CA's ledger":       func() (*nats.Conn, error) { return busAs(f, stranger, fleet.Billing) },
		"the catalog":               func() (*nats.Conn, error) { return busAs(f, f.CertDir(), fleet.Catalog) },
		"NATS's own certificate":    func() (*nats.Conn, error) { return busAs(f, f.CertDir(), fleet.NATS) },
		"a hub that says not which": func() (*nats.Conn, error) { return busAs(f, f.CertDir(), "any-hub") },
	} {
		if nc, err := connect(); err == nil {
			nc.Close()
			t.Errorf("%s: got a connection, want it refused", name)
		}
	}
	for _, file := range append([]string{fleet.Billing, fleet.Settlement, fleet.Router, fleet.Gateway}, f.Replicas(fleet.Hub)...) {
		nc, err := busAs(f, f.CertDir(), file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		service := file
		if strings.HasPrefix(file, fleet.Hub) {
			service = fleet.Hub
		}
		for _, row := range bus.Table() {
			for _, hub := range f.Replicas(fleet.Hub) {
				id := fleet.HubID(hub)
				own := false
				for _, publisher := range row.Publish {
					own = own || publisher == service && (service != fleet.Hub || !strings.Contains(row.Subject, bus.HubPart) || file == hub)
				}
				subject := strings.ReplaceAll(row.Subject, bus.HubPart, id)
				if !own && !refusedAt(t, nc, subject) {
					t.Errorf("%s publishes on %s: got it taken, want it refused", file, subject)
				}
			}
		}
		nc.Close()
	}
}
