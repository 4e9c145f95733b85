package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/node"
	"svc.internal/services/standalone/localdata"
	"svc.internal/services/standalone/logins"
)

// Names of readers beside the services.
const (
	postgres = "postgres"
	// database is what PostgreSQL's image runs when it makes its database.
	database = "postgres-init"
	nats     = "nats"
	self     = "fleetfiles"
	// migrates is the end of the name of a service's migrations.
	migrates = "-migrate"
)

// administrator makes the logins of the services. It is no superuser, because from another
// machine a superuser is refused.
const administrator = "fleet_admin"

// Names of the files of a reader, and of the folder where a reader's container has them.
const (
	mount        = "/etc/svc"
	certFile     = "cert.pem"
	keyFile      = "key.pem"
	urlFile      = "database-url"
	ownerURLFile = "database-owner-url"
	superFile    = "superuser-password"
	adminFile    = "admin.sql"
	pepperFile   = "pepper"
	natsFile     = "nats.conf"
)

// readers are the containers with a folder, in order.
func readers() []string {
	all := append(node.Names(), postgres, database, nats, self)
	for _, service := range logins.Services() {
		all = append(all, service+migrates)
	}
	return all
}

// files are the folders of the readers, beside the folder of what is kept.
type files struct{ kept *localdata.Dir }

func open(dir string) (*files, error) {
	kept, err := localdata.Open(filepath.Join(dir, "kept"))
	if err != nil {
		return nil, err
	}
	return &files{kept}, nil
}

// close lets another process use the folder. The process ends anyway, which does so too.
func (f *files) close() { _ = f.kept.Close() }

// give writes a file for a reader.
func (f *files) give(reader, file string, content []byte) error {
	// The folder that localdata writes to is that of kept, and the readers' are beside it.
	return f.kept.Write(content, "..", reader, file)
}

// makeFiles makes what needs no database.
func (f *files) makeFiles() error {
	if err := f.makeCertificates(); err != nil {
		return err
	}
	if _, err := f.kept.Pepper(); err != nil {
		return err
	}
	if _, err := f.kept.MachineTokens(); err != nil {
		return err
	}
	if _, err := f.kept.BootstrapTokens(); err != nil {
		return err
	}
	if _, err := f.kept.DatabasePassword(postgres); err != nil {
		return err
	}
	password, err := f.kept.DatabasePassword(administrator)
	if err != nil {
		return err
	}
	if err := f.give(database, adminFile, adminSQL(password)); err != nil {
		return err
	}
	for _, gift := range []struct{ secret, reader, file string }{
		{"pepper", node.BillingLedger, pepperFile}, {"pepper", node.ProviderHub, pepperFile},
		{"machine-tokens", node.EdgeGateway, "machine-tokens"},
		{"bootstrap-tokens", node.EdgeGateway, "bootstrap-tokens"},
		{"database-password-" + postgres, postgres, superFile},
	} {
		text, err := os.ReadFile(f.kept.Path("secrets", gift.secret))
		if err != nil {
			return fmt.Errorf("read a secret: %w", err)
		}
		if err := f.give(gift.reader, gift.file, text); err != nil {
			return err
		}
	}
	return f.give(nats, natsFile, natsSettings())
}

// adminSQL makes the administrator and its database. A password has hexadecimal digits
// alone.
func adminSQL(password string) []byte {
	return fmt.Appendf(nil, `CREATE ROLE %[1]s LOGIN CREATEROLE PASSWORD '%[2]s';
CREATE DATABASE marketplace OWNER %[1]s;
`, administrator, password)
}

// makeCertificates makes a certificate for each container that listens, and gives each
// container the authority's.
func (f *files) makeCertificates() error {
	certs := f.kept.Path("certs")
	names := append(node.Names(), postgres, nats)
	var leaves []devcerts.Leaf
	for _, name := range names {
		leaf := devcerts.Leaf{File: name, Services: []string{name}}
		if name == node.ProviderHub {
			leaf.Services = append(leaf.Services, bus.HubName(node.DefaultHub))
		}
		leaves = append(leaves, leaf)
	}
	if err := devcerts.Write(certs, leaves...); err != nil {
		return err
	}
	for _, reader := range readers() {
		if reader == database {
			continue // it makes no connection
		}
		parts := map[string]string{devcerts.CAFile: filepath.Join(certs, devcerts.CAFile)}
		if slices.Contains(names, reader) {
			parts[keyFile], parts[certFile] = devcerts.KeyFile(certs, reader), devcerts.CertFile(certs, reader)
		}
		for file, from := range parts {
			text, err := os.ReadFile(from)
			if err != nil {
				return fmt.Errorf("read a certificate: %w", err)
			}
			if err := f.give(reader, file, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// natsSettings are the settings of a nats-server that lets each service in with its
// certificate, for its own subjects, with the bounds of the server that pkg/bus runs
// inside a process.
func natsSettings() []byte {
	authorization := bus.Authorization(
		bus.Identity{Services: []string{node.BillingLedger}}, bus.Identity{Services: []string{node.Settlement}},
		bus.Identity{Services: []string{node.Router}}, bus.Identity{Services: []string{node.Verifier}},
		bus.Identity{Services: []string{node.EdgeGateway}},
		bus.Identity{Services: []string{node.ProviderHub}, HubID: node.DefaultHub},
	)
	return fmt.Appendf(authorization, `listen: "0.0.0.0:4222"
http: "127.0.0.1:8222"
max_payload: 1MB
tls {
  cert_file: %q
  key_file: %q
  ca_file: %q
  verify_and_map: true
}
jetstream {
  store_dir: "/var/lib/svc"
  max_file_store: 8GB
  max_memory_store: 64MB
}
`, mount+"/"+certFile, mount+"/"+keyFile, mount+"/"+devcerts.CAFile)
}

// makeLogins makes the logins of the services in PostgreSQL, with a suffix that no other
// fleet on the server has, and gives each service the URL under which it serves, and its
// migrations the owner's.
func (f *files) makeLogins(ctx context.Context, admin string) error {
	secret, err := f.kept.DatabasePassword(administrator)
	if err != nil {
		return err
	}
	at, err := url.Parse(admin)
	if err != nil || at.User == nil {
		return errors.New("-admin: want postgres://user@host/database") // the error would show a password
	}
	at.User = url.UserPassword(at.User.Username(), secret)
	suffix, err := f.kept.DatabaseSuffix()
	if err != nil {
		return err
	}
	made, err := logins.Make(ctx, f.kept, at.String(), suffix, logins.Services())
	if err != nil {
		return err
	}
	for service, database := range made {
		if err := f.give(service, urlFile, []byte(database.URL+"\n")); err != nil {
			return err
		}
		if err := f.give(service+migrates, ownerURLFile, []byte(database.OwnerURL+"\n")); err != nil {
			return err
		}
	}
	return nil
}

// readyTimeout bounds the question whether somebody is ready.
const readyTimeout = 5 * time.Second

// ready returns nil when the server at an address answers with 200.
func ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	//nolint:gosec // who starts this program names the address
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request) //nolint:gosec // as above
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	err = errors.Join(err, answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s: %s", address, answer.Status), err)
	}
	return err
}
