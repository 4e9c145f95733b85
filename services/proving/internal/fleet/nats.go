package fleet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
)

// natsLeaf is the certificate of all NATS servers. In a cluster they know each other by the
// name of the host, because that is what nats-server checks.
func (f *Fleet) natsLeaf() devcerts.Leaf {
	names := []string{bus.ServerName}
	if f.cfg.Replicas[NATS] > 1 {
		names = append(names, routeHost)
	}
	return devcerts.Leaf{File: NATS, Services: names}
}

// routeHost is the host of the routes between NATS servers.
const routeHost = "localhost"

// natsStore is the folder of a NATS server's streams.
func (f *Fleet) natsStore(name string) string {
	if f.cfg.Replicas[NATS] == 1 {
		return f.dir.Path("nats")
	}
	return f.dir.Path("nats", name)
}

// natsURLs are the addresses at which a process finds the NATS servers.
func (f *Fleet) natsURLs(from string) (string, error) {
	var urls []string
	for _, name := range f.named(NATS) {
		at, err := f.cfg.via(from, name, f.layout.grpc(name))
		if err != nil {
			return "", err
		}
		urls = append(urls, "tls://"+at)
	}
	return strings.Join(urls, ","), nil
}

// natsPlace is what Config.Place needs to know of nats-server.
func (f *Fleet) natsPlace(name string) map[string]any {
	certs := f.CertDir()
	return map[string]any{
		"grpc_addr": f.layout.grpc(name), "admin_addr": f.layout.admin(name), "journal_dir": f.natsStore(name),
		"tls": map[string]any{
			"cert": devcerts.CertFile(certs, NATS), "key": devcerts.KeyFile(certs, NATS),
			"ca": filepath.Join(certs, devcerts.CAFile),
		},
	}
}

// natsSettings gives nats-server the bounds of the server that pkg/bus runs inside a
// process, and lets each service in with its certificate, for its own subjects.
func (f *Fleet) natsSettings(name string) []byte {
	var identities []bus.Identity
	for _, service := range []string{Billing, Settlement, Router, Verifier, Gateway} {
		if !f.cfg.Grouped || !slices.Contains(group, service) {
			identities = append(identities, bus.Identity{Services: []string{service}})
		}
	}
	for _, hub := range f.named(Hub) {
		identities = append(identities, bus.Identity{Services: f.hosted(Hub), HubID: f.hubID(hub)})
	}
	certs := f.CertDir()
	text := fmt.Appendf(bus.Authorization(identities...), `listen: %q
http: %q
max_payload: 1MB
tls {
  cert_file: %q
  key_file: %q
  ca_file: %q
  verify_and_map: true
}
jetstream {
  store_dir: %q
  max_file_store: 8GB
  max_memory_store: 64MB
}
`, f.layout.grpc(name), f.layout.admin(name), devcerts.CertFile(certs, NATS), devcerts.KeyFile(certs, NATS),
		filepath.Join(certs, devcerts.CAFile), f.natsStore(name))
	if f.cfg.Replicas[NATS] == 1 {
		return text
	}
	return append(text, f.clusterSettings(name)...)
}

// clusterSettings are the settings that make a NATS server part of a cluster. The servers do not
// advertise each other to clients, because the clients have all addresses in their settings.
func (f *Fleet) clusterSettings(name string) []byte {
	var routes []string
	for _, other := range f.named(NATS) {
		_, port, err := net.SplitHostPort(f.layout.route(other))
		if err == nil {
			routes = append(routes, fmt.Sprintf("%q", "nats-route://"+net.JoinHostPort(routeHost, port)))
		}
	}
	certs := f.CertDir()
	return fmt.Appendf(nil, `server_name: %q
cluster {
  name: "fleet"
  listen: %q
  no_advertise: true
  routes: [%s]
  tls {
    cert_file: %q
    key_file: %q
    ca_file: %q
    verify: true
  }
}
`, name, f.layout.route(name), strings.Join(routes, ", "), devcerts.CertFile(certs, NATS),
		devcerts.KeyFile(certs, NATS), filepath.Join(certs, devcerts.CAFile))
}

// WipeNATS removes everything that the named NATS servers keep, or that all of them keep
// where none is named. None of them may be running.
func (f *Fleet) WipeNATS(names ...string) error {
	if len(names) == 0 {
		names = f.named(NATS)
	}
	for _, name := range names {
		if f.Pid(name) != 0 {
			return errors.New("wipe NATS: it is running")
		}
		store := f.natsStore(name)
		if err := errors.Join(os.RemoveAll(store), os.MkdirAll(store, 0o700)); err != nil {
			return fmt.Errorf("wipe NATS: %w", err)
		}
	}
	return nil
}
