package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
)

// Config is the configuration that every process has, whichever services it runs.
type Config struct {
	// GRPCAddr is where other processes call the services of this one; empty
	// when there are none. Without TLS it must be on loopback.
	GRPCAddr string `yaml:"grpc_addr" env:"SVC_GRPC_ADDR"`
	// GRPCAdvertise is how others reach GRPCAddr, where that differs.
	GRPCAdvertise string `yaml:"grpc_advertise" env:"SVC_GRPC_ADVERTISE"`
	// AdminAddr is where metrics, health and profiles listen. The public must not reach
	// it. Port 0 means a free one.
	AdminAddr string `yaml:"admin_addr" env:"SVC_METRICS_ADDR"`
	// Profiles serves /debug/pprof on AdminAddr even where that is not on loopback.
	Profiles bool `yaml:"profiles" env:"SVC_PROFILES"`
	// TLS proves this process to others, and others to it.
	TLS serve.TLSFiles `yaml:"tls"`
	// Peers are where the services of other processes answer.
	Peers Peers `yaml:"peers" env:"SVC_PEERS"`
	// NATSURL is one or several NATS servers, separated by commas. They must be on
	// loopback unless TLS is set. With TLS each connection is encrypted and known by the
	// process's certificate.
	NATSURL config.Secret `yaml:"nats_url" env:"SVC_NATS_URL"`
	// NATSSecret is the secret by which a standalone process on this machine admits
	// others to its NATS server, where there is no TLS.
	NATSSecret config.Secret `yaml:"nats_secret" env:"SVC_NATS_SECRET"`
	// NATSReplicas is the number of servers of a NATS cluster that keep each message of a
	// stream: 1, 3 or 5, the same in all processes.
	NATSReplicas int `yaml:"nats_replicas" env:"SVC_NATS_REPLICAS"`
	// DatabaseURL is a PostgreSQL server, under the service's own login, which
	// reads and writes the service's tables and cannot change the schema.
	DatabaseURL config.Secret `yaml:"database_url" env:"DATABASE_URL"`
	// DatabaseOwnerURL is the same server under the login of the schema's owner.
	// Only migrate needs it; do not give it to a process that serves.
	DatabaseOwnerURL config.Secret `yaml:"database_owner_url" env:"DATABASE_OWNER_URL"`
	// DatabaseAllowUnverified allows a server off loopback with an sslmode below
	// verify-full.
	DatabaseAllowUnverified bool   `yaml:"database_allow_unverified" env:"SVC_DATABASE_ALLOW_UNVERIFIED"`
	Log                     Log    `yaml:"log"`
	Traces                  Traces `yaml:"traces"`
	// DrainDelay is how long a process that is stopping says that it is not ready before
	// it stops listening, so that load balancers send their requests elsewhere.
	DrainDelay time.Duration `yaml:"drain_delay" env:"SVC_DRAIN_DELAY"`
	// DrainTimeout is how long public requests may run after that.
	DrainTimeout time.Duration `yaml:"drain_timeout" env:"SVC_DRAIN_TIMEOUT"`
}

// Log is the level and the format of the log.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level" env:"SVC_LOG_LEVEL"`
	// Format is text or json.
	Format string `yaml:"format" env:"SVC_LOG_FORMAT"`
}

// Traces is where spans go.
type Traces struct {
	// OTLPEndpoint is the host:port of a collector that speaks OTLP over gRPC;
	// empty records nothing.
	OTLPEndpoint string `yaml:"otlp_endpoint" env:"SVC_OTLP_ENDPOINT"`
	// OTLPInsecure allows an unencrypted connection to a collector that is not on
	// loopback.
	OTLPInsecure bool `yaml:"otlp_insecure" env:"SVC_OTLP_INSECURE"`
	// Ratio is the part of the requests whose traces are recorded, from 0 to 1.
	Ratio float64 `yaml:"ratio" env:"SVC_TRACE_RATIO"`
}

// DefaultConfig listens on loopback only, and on a free port for metrics.
func DefaultConfig() Config {
	return Config{
		AdminAddr:    "127.0.0.1:0",
		Log:          Log{Level: "info", Format: "json"},
		Traces:       Traces{Ratio: 1},
		DrainTimeout: 20 * time.Second,
		NATSReplicas: 1,
	}
}

// Peers are the addresses of services by name: the address of each replica, or one gRPC
// target such as dns:///billing-ledger:9000.
type Peers map[string][]string

// UnmarshalText reads name=address|address,name=address.
func (p *Peers) UnmarshalText(text []byte) error {
	peers := Peers{}
	for pair := range strings.SplitSeq(string(text), ",") {
		name, list, ok := strings.Cut(pair, "=")
		if !ok || name == "" || list == "" {
			return fmt.Errorf("%q is not name=address|address", pair)
		}
		if peers[name] != nil {
			return fmt.Errorf("%q is named twice", name)
		}
		peers[name] = strings.Split(list, "|")
	}
	*p = peers
	return nil
}

// Check returns every fault of the configuration for a process that runs the
// services in specs.
func (c *Config) Check(specs ...Spec) error {
	faults := append(c.checkAddresses(specs), c.TLS.Validate())
	faults = append(faults, c.checkNeeds(specs)...)
	faults = append(faults, c.checkBus()...)
	faults = append(faults, c.checkDatabase(specs)...)
	if c.DrainDelay < 0 || c.DrainTimeout <= 0 {
		faults = append(faults, errors.New("drain_delay must not be negative, and drain_timeout must be above zero"))
	}
	if err := telemetry.Config.Validate(c.Telemetry("")); err != nil {
		faults = append(faults, fmt.Errorf("traces: %w", err))
	}
	if c.TLS.Validate() == nil && c.TLS.IsSet() {
		faults = append(faults, c.checkCertificate(specs))
	}
	if _, err := telemetry.NewLog(telemetry.Config{LogLevel: c.Log.Level, LogFormat: c.Log.Format}, nil); err != nil {
		faults = append(faults, fmt.Errorf("log: %w", err))
	}
	return errors.Join(faults...)
}

func (c *Config) checkAddresses(specs []Spec) []error {
	var faults []error
	check := func(name, address string) {
		if _, _, err := net.SplitHostPort(address); err != nil {
			faults = append(faults, fmt.Errorf("%s %q is not host:port", name, address))
		}
	}
	check("admin_addr (SVC_METRICS_ADDR)", c.AdminAddr)
	if c.GRPCAdvertise != "" {
		check("grpc_advertise (SVC_GRPC_ADVERTISE)", c.GRPCAdvertise)
	}
	if c.GRPCAddr != "" {
		check("grpc_addr (SVC_GRPC_ADDR)", c.GRPCAddr)
		if err := serve.Loopback(c.GRPCAddr); err != nil && !c.TLS.IsSet() {
			faults = append(faults, fmt.Errorf("grpc_addr (SVC_GRPC_ADDR): %w", err))
		}
		if everywhere(c.GRPCAddr) && c.GRPCAdvertise == "" &&
			slices.ContainsFunc(specs, func(s Spec) bool { return s.Replicas }) {
			faults = append(faults,
				errors.New("grpc_advertise (SVC_GRPC_ADVERTISE) is missing: others must be told where they reach this replica"))
		}
	}
	for name, addresses := range c.Peers {
		if !slices.Contains(Names(), name) {
			faults = append(faults, fmt.Errorf("peers (SVC_PEERS): there is no service %q", name))
		}
		for _, address := range addresses {
			if strings.Contains(address, "://") && len(addresses) > 1 {
				faults = append(faults, fmt.Errorf("peers (SVC_PEERS): %s: %s must be the only one", name, address))
				continue
			}
			if strings.Contains(address, "://") && c.TLS.IsSet() {
				continue
			}
			check("peers (SVC_PEERS): "+name, address)
			if err := serve.Loopback(address); err != nil && !c.TLS.IsSet() {
				faults = append(faults, fmt.Errorf("peers (SVC_PEERS): %s: %w", name, err))
			}
		}
		if runs(specs, name) {
			faults = append(faults, fmt.Errorf("peers (SVC_PEERS): %s runs in this process", name))
		}
	}
	return faults
}

// checkNeeds returns what the services lack.
func (c *Config) checkNeeds(specs []Spec) []error {
	var faults []error
	for _, spec := range specs {
		for _, peer := range spec.Peers {
			if !runs(specs, peer) && len(c.Peers[peer]) == 0 {
				faults = append(faults, fmt.Errorf("peers (SVC_PEERS): %s needs the address of %s", spec.Name, peer))
			}
		}
	}
	if !c.DatabaseURL.IsSet() && slices.ContainsFunc(specs, func(s Spec) bool { return s.Database }) {
		faults = append(faults, errors.New("database_url (DATABASE_URL) is missing"))
	}
	if !c.NATSURL.IsSet() && slices.ContainsFunc(specs, func(s Spec) bool { return s.Bus }) {
		faults = append(faults, errors.New("nats_url (SVC_NATS_URL) is missing"))
	}
	if c.GRPCAddr == "" && slices.ContainsFunc(specs, func(s Spec) bool { return s.called(specs) }) {
		faults = append(faults, errors.New("grpc_addr (SVC_GRPC_ADDR) is missing: other processes call this one"))
	}
	return faults
}

// checkCertificate finds at the start the faults that every connection would find later.
func (c *Config) checkCertificate(specs []Spec) error {
	creds, err := serve.LoadCredentials(c.TLS, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return creds.Covers(certifiedNames(specs))
}

// hasProfiles reports whether a listener at address has /debug/pprof.
func (c *Config) hasProfiles(address string) bool {
	return c.Profiles || serve.Loopback(address) == nil
}

// everywhere reports whether an address to listen on names no host to dial.
func everywhere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "" || ip != nil && ip.IsUnspecified())
}

func runs(specs []Spec, name string) bool {
	return slices.ContainsFunc(specs, func(s Spec) bool { return s.Name == name })
}

// Telemetry returns how a process of this name is observed.
func (c *Config) Telemetry(name string) telemetry.Config {
	return telemetry.Config{
		LogLevel: c.Log.Level, LogFormat: c.Log.Format, Service: name,
		OTLPEndpoint: c.Traces.OTLPEndpoint, OTLPInsecure: c.Traces.OTLPInsecure, TraceRatio: c.Traces.Ratio,
	}
}
