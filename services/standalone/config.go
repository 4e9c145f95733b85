package standalone

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"svc.internal/pkg/config"
	"svc.internal/pkg/serve"
)

// Config of the process, read from the environment.
type Config struct {
	// HTTPAddr is where the public API listens.
	HTTPAddr string `env:"SVC_HTTP_ADDR" envDefault:"127.0.0.1:8080"`
	// WSAddr is where provider agents connect.
	WSAddr string `env:"SVC_WS_ADDR" envDefault:"127.0.0.1:8081"`
	// MetricsAddr is where metrics and health listen; port 0 takes a free one.
	MetricsAddr string `env:"SVC_METRICS_ADDR" envDefault:"127.0.0.1:0"`
	// GRPCAddr is where services of this process answer those of others;
	// empty when all are here. Loopback only.
	GRPCAddr string `env:"SVC_GRPC_ADDR"`
	// DataDir holds all that outlives the process.
	DataDir string `env:"SVC_DATA_DIR" envDefault:".run"`
	// DatabaseURL is a PostgreSQL server to use; empty starts a private one.
	DatabaseURL config.Secret `env:"DATABASE_URL"`
	// NATSURL is a NATS server to use; empty starts one inside.
	NATSURL config.Secret `env:"SVC_NATS_URL"`
	// NATSAddr lets other processes use the NATS server inside.
	NATSAddr string `env:"SVC_NATS_ADDR"`
	// Peers are the addresses of services that live elsewhere:
	// billing-ledger=127.0.0.1:9001,catalog=127.0.0.1:9002.
	Peers map[string]string `env:"SVC_PEERS" envKeyValSeparator:"="`
	// HubID names the hub of this process; two hubs need two names.
	HubID string `env:"SVC_HUB_ID" envDefault:"hub-1"`
	// Pepper and AdminToken are made in the data directory unless given.
	Pepper     config.Secret `env:"SVC_PEPPER"`
	AdminToken config.Secret `env:"SVC_ADMIN_TOKEN"`
	// Demo seeds models, a consumer and a provider.
	Demo Switch `env:"SVC_DEMO" envDefault:"on"`
	// DemoAgent runs the demo's provider in this process.
	DemoAgent Switch `env:"SVC_DEMO_AGENT" envDefault:"on"`
	// CatalogFile is put into the catalog at start instead of the demo's own.
	CatalogFile string `env:"SVC_CATALOG"`
	// EngineURL is the engine of the demo's provider, ending in /v1.
	EngineURL string `env:"ENGINE_URL"`
	LogLevel  string `env:"SVC_LOG_LEVEL" envDefault:"warn"`
	LogFormat string `env:"SVC_LOG_FORMAT" envDefault:"text"`

	// Services run in this process; the others are dialled. Set by flag.
	Services []string `env:"-"`
}

// Switch is on or off.
type Switch bool

// UnmarshalText reads on or off.
func (s *Switch) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "on", "true", "1":
		*s = true
	case "off", "false", "0":
		*s = false
	default:
		return fmt.Errorf("%q is neither on nor off", text)
	}
	return nil
}

// Names of the services, in the order in which they start.
const (
	catalogName    = "catalog"
	billingName    = "billing-ledger"
	settlementName = "settlement"
	routerName     = "router"
	hubName        = "provider-hub"
	gatewayName    = "edge-gateway"
)

// AllServices are the services this process can run.
func AllServices() []string {
	return []string{catalogName, billingName, settlementName, routerName, hubName, gatewayName}
}

// Validate checks everything and reports all faults.
func (c *Config) Validate() error {
	var faults []error
	for name, address := range map[string]string{
		"SVC_HTTP_ADDR": c.HTTPAddr, "SVC_WS_ADDR": c.WSAddr, "SVC_METRICS_ADDR": c.MetricsAddr,
	} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			faults = append(faults, fmt.Errorf("%s %q is not host:port", name, address))
		}
	}
	for name, address := range map[string]string{"SVC_GRPC_ADDR": c.GRPCAddr, "SVC_NATS_ADDR": c.NATSAddr} {
		if address == "" {
			continue
		}
		if err := serve.Loopback(address); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	if c.NATSAddr != "" && c.NATSURL.IsSet() {
		faults = append(faults, errors.New("SVC_NATS_ADDR is for the NATS server inside, and SVC_NATS_URL names another"))
	}
	for name := range c.Peers {
		if !slices.Contains(AllServices(), name) {
			faults = append(faults, fmt.Errorf("SVC_PEERS: there is no service %q", name))
		}
	}
	return errors.Join(faults...)
}

// Select chooses the services to run from a comma-separated list; empty means
// all. Those not chosen need a peer.
func (c *Config) Select(list string) error {
	c.Services = AllServices()
	if list != "" {
		c.Services = strings.Split(list, ",")
	}
	var faults []error
	for _, name := range c.Services {
		if !slices.Contains(AllServices(), name) {
			faults = append(faults, fmt.Errorf("-services: there is no service %q; there are %s", name, strings.Join(AllServices(), ", ")))
		}
	}
	for _, name := range AllServices() {
		if !c.runs(name) && c.Peers[name] == "" {
			faults = append(faults, fmt.Errorf("-services: %s does not run here and has no address in SVC_PEERS", name))
		}
	}
	if len(faults) == 0 && !c.all() {
		faults = c.checkShared()
	}
	return errors.Join(faults...)
}

// checkShared checks what processes that share the work must share.
func (c *Config) checkShared() []error {
	var faults []error
	if c.GRPCAddr == "" {
		faults = append(faults, errors.New("-services: some services run elsewhere, so SVC_GRPC_ADDR must say where those here answer"))
	}
	if !c.NATSURL.IsSet() && c.NATSAddr == "" {
		faults = append(faults, errors.New("-services: all processes need one NATS: set SVC_NATS_URL, or SVC_NATS_ADDR in the process that runs it"))
	}
	if !c.Pepper.IsSet() && (c.runs(billingName) != c.runs(hubName)) {
		faults = append(faults, errors.New("-services: billing-ledger and provider-hub share a pepper; set SVC_PEPPER"))
	}
	return faults
}

func (c *Config) runs(name string) bool { return slices.Contains(c.Services, name) }

func (c *Config) all() bool { return len(c.Services) == len(AllServices()) }
