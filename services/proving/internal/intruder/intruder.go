// Package intruder is an impostor on the bus of a fleet: a client of its NATS without a
// certificate, with a certificate of another CA, or with the genuine certificate of a
// service that has no business on the subject.
//
// The readers of usage must refuse what the server lets in; see Event.
package intruder

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/services/proving/internal/fleet"
)

// Client is a connection to a fleet's NATS.
type Client struct{ nc *nats.Conn }

// connect connects with the certificate in that file of certs, and without a certificate
// if file is empty.
func connect(f *fleet.Fleet, certs, file string, more ...nats.Option) (*Client, error) {
	text, err := os.ReadFile(filepath.Join(f.CertDir(), devcerts.CAFile))
	if err != nil {
		return nil, fmt.Errorf("connect to the fleet's NATS: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	cfg := &tls.Config{RootCAs: roots, ServerName: bus.ServerName, MinVersion: tls.VersionTLS12}
	if file != "" {
		pair, err := tls.LoadX509KeyPair(devcerts.CertFile(certs, file), devcerts.KeyFile(certs, file))
		if err != nil {
			return nil, fmt.Errorf("connect to the fleet's NATS: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return dial(f.NATSURL(), append(more, nats.Secure(cfg))...)
}

func dial(url string, options ...nats.Option) (*Client, error) {
	nc, err := nats.Connect(url, append(options, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		return nil, fmt.Errorf("connect to the fleet's NATS: %w", err)
	}
	return &Client{nc}, nil
}

// As connects as a service of the fleet, and gets answers where that service does.
func As(f *fleet.Fleet, file string) (*Client, error) {
	inbox := "_INBOX_" + file
	if service(file) == fleet.Hub {
		inbox = "_INBOX_" + fleet.Hub + "_" + fleet.HubID(file)
	}
	return connect(f, f.CertDir(), file, nats.CustomInboxPrefix(inbox))
}

// Close drops the connection.
func (c *Client) Close() { c.nc.Close() }

// Answered returns when the server has answered, or an error.
func (c *Client) Answered(within time.Duration) error {
	if err := c.nc.FlushTimeout(within); err != nil {
		return fmt.Errorf("wait for NATS to answer: %w", err)
	}
	return nil
}

// Stranger is a way to connect that the server must refuse.
type Stranger struct {
	Name    string
	Connect func() (*Client, error)
}

// Strangers returns all of them. Certificates that are made for it are written to dir,
// which is not the fleet's, and to the fleet's own folder.
func Strangers(f *fleet.Fleet, dir string) ([]Stranger, error) {
	const anyHub = "any-hub"
	if err := devcerts.Write(dir, devcerts.Leaf{File: fleet.Billing, Services: []string{fleet.Billing}}); err != nil {
		return nil, err
	}
	if err := devcerts.Write(f.CertDir(), devcerts.Leaf{File: anyHub, Services: []string{fleet.Hub}}); err != nil {
		return nil, err
	}
	with := func(certs, file string, more ...nats.Option) func() (*Client, error) {
		return func() (*Client, error) { return connect(f, certs, file, more...) }
	}
	return []Stranger{
		{"without TLS", func() (*Client, error) {
			return dial("nats://" + strings.TrimPrefix(f.NATSURL(), "tls://"))
		}},
		{"without a certificate", with("", "")},
		{"with a user's name and no certificate", with("", "", nats.UserInfo(fleet.Billing, ""))},
		{"another CA's ledger", with(dir, fleet.Billing)},
		{"the catalog", with(f.CertDir(), fleet.Catalog)},
		{"NATS's own certificate", with(f.CertDir(), fleet.NATS)},
		{"a hub that says not which", with(f.CertDir(), anyHub)},
	}, nil
}

// Clients are the files of the certificates that the server accepts.
func Clients(f *fleet.Fleet) []string {
	return append([]string{fleet.Billing, fleet.Settlement, fleet.Router, fleet.Gateway}, f.Replicas(fleet.Hub)...)
}

func service(file string) string {
	if strings.HasPrefix(file, fleet.Hub) {
		return fleet.Hub
	}
	return file
}

// Foreign are the subjects of the marketplace on which a client has no business to
// publish.
func Foreign(f *fleet.Fleet, file string) []string {
	var subjects []string
	for _, row := range bus.Table() {
		for _, hub := range f.Replicas(fleet.Hub) {
			own := slices.Contains(row.Publish, service(file)) &&
				(service(file) != fleet.Hub || !strings.Contains(row.Subject, bus.HubPart) || file == hub)
			if !own {
				subjects = append(subjects, strings.ReplaceAll(row.Subject, bus.HubPart, fleet.HubID(hub)))
			}
		}
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}

// Refused publishes on a subject and reports whether the server refuses it. An error
// means that this is not known.
func (c *Client) Refused(subject string, data []byte) (bool, error) {
	before := c.nc.LastError()
	if err := errors.Join(c.nc.Publish(subject, data), c.nc.Flush()); err != nil {
		return false, fmt.Errorf("publish on %s: %w", subject, err)
	}
	err := c.nc.LastError()
	anew := err != before //nolint:errorlint // each violation is an error of its own
	return anew && errors.Is(err, nats.ErrPermissionViolation) &&
		strings.Contains(err.Error(), strconv.Quote(subject)), nil
}
