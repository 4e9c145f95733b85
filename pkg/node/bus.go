package node

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/serve"
)

// checkBus returns an error for a bus whose connection others could read or write.
func (c *Config) checkBus() []error {
	var faults []error
	if !slices.Contains([]int{1, 3, 5}, c.NATSReplicas) {
		faults = append(faults, fmt.Errorf("nats_replicas (SVC_NATS_REPLICAS) is %d: use 1, 3 or 5", c.NATSReplicas))
	}
	if !c.NATSURL.IsSet() || c.TLS.IsSet() {
		return faults
	}
	for server := range strings.SplitSeq(c.NATSURL.Reveal(), ",") {
		at, err := url.Parse(strings.TrimSpace(server))
		switch {
		case err != nil || at.Host == "":
			// The error would show a password.
			faults = append(faults, errors.New("nats_url (SVC_NATS_URL) is malformed: want nats://host:port or tls://host:port"))
		case at.Scheme == "tls":
			faults = append(faults,
				errors.New("nats_url (SVC_NATS_URL) asks for TLS: set tls (SVC_TLS_CERT, SVC_TLS_KEY, SVC_TLS_CA)"))
		case serve.Loopback(withPort(at)) != nil:
			faults = append(faults,
				fmt.Errorf("nats_url (SVC_NATS_URL): %s is not on loopback, so NATS needs TLS and the identity of each service:"+
					" set tls (SVC_TLS_CERT, SVC_TLS_KEY, SVC_TLS_CA)", at.Host))
		}
	}
	return faults
}

func withPort(at *url.URL) string {
	if at.Port() == "" {
		return at.Host + ":4222"
	}
	return at.Host
}

// BusConfig returns how this process connects to NATS, and as whom.
func (n *Node) BusConfig() bus.Config {
	cfg := n.cfg.busConfig(n.specs, n.creds)
	cfg.Name, cfg.Log, cfg.Traces = strings.Join(n.Names(), "+"), n.tel.Log, n.tel.Traces
	return cfg
}

func (c *Config) busConfig(specs []Spec, creds *serve.Credentials) bus.Config {
	cfg := bus.Config{
		URL: c.NATSURL.Reveal(), Identity: identity(specs), Secret: c.NATSSecret.Reveal(), Replicas: c.NATSReplicas,
	}
	if creds != nil {
		cfg.TLS, cfg.Secret = creds.ClientTLS(bus.ServerName), ""
	}
	return cfg
}

// identity returns the identity of a process on the bus: its services that use the bus.
func identity(specs []Spec) *bus.Identity {
	var id bus.Identity
	for _, spec := range specs {
		if spec.Name == Catalog {
			continue // it does not use the bus
		}
		id.Services = append(id.Services, spec.Name)
		if spec.HubID != "" {
			id.HubID = spec.HubID
		}
	}
	if len(id.Services) == 0 {
		return nil
	}
	return &id
}

// BusServerTLS returns the TLS configuration of a NATS server inside this process; nil
// when the process has no certificates.
func (n *Node) BusServerTLS() (*tls.Config, error) {
	if n.creds == nil {
		return nil, nil
	}
	if err := n.creds.Covers([]string{bus.ServerName}); err != nil {
		return nil, err
	}
	return n.creds.ServerTLS(), nil
}

// certifiedNames returns the names that the certificate of a process with these services
// must have: the services, and its hub.
func certifiedNames(specs []Spec) []string {
	var names []string
	for _, spec := range specs {
		names = append(names, spec.Name)
		if spec.HubID != "" {
			names = append(names, bus.HubName(spec.HubID))
		}
	}
	return names
}
