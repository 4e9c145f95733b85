package standalone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"svc.internal/pkg/config"
	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	billingledger "svc.internal/services/billing-ledger"
	catalog "svc.internal/services/catalog"
	edgegateway "svc.internal/services/edge-gateway"
	providerhub "svc.internal/services/provider-hub"
	router "svc.internal/services/router"
	settlement "svc.internal/services/settlement"
	signer "svc.internal/services/settlement/signer"
	"svc.internal/services/standalone/logins"
	verifier "svc.internal/services/verifier"
)

// Config of the process: what every process of the marketplace has, a section for each
// service, and the settings of a process that stands alone. It is read from the
// environment, and from a file where there is one.
type Config struct {
	node.Config `yaml:",inline"`

	Gateway    edgegateway.Config   `yaml:"gateway"`
	Hub        providerhub.Config   `yaml:"hub"`
	Router     router.Config        `yaml:"router"`
	Billing    billingledger.Config `yaml:"billing"`
	Settlement settlement.Config    `yaml:"settlement"`
	Signer     signer.Config        `yaml:"signer"`
	Catalog    catalog.Config       `yaml:"catalog"`
	Verifier   verifier.Config      `yaml:"verifier"`

	// DataDir holds everything that outlives the process.
	DataDir string `yaml:"data_dir" env:"SVC_DATA_DIR"`
	// NATSAddr lets other processes use the NATS server inside, which runs unless NATSURL
	// names another. They prove who they are: by their certificates where TLS is set, and
	// else by NATSSecret, which is derived from the pepper unless it is given. Without
	// NATSAddr the server has no listener.
	NATSAddr string `yaml:"nats_addr" env:"SVC_NATS_ADDR"`
	// Demo seeds models, a consumer and a provider.
	Demo Switch `yaml:"demo" env:"SVC_DEMO"`
	// DemoAgent runs the demo's provider in this process.
	DemoAgent Switch `yaml:"demo_agent" env:"SVC_DEMO_AGENT"`
	// CatalogFile is put into the catalog at start in place of the demo's own.
	CatalogFile string `yaml:"catalog_file" env:"SVC_CATALOG"`
	// EngineURL is the engine of the demo's provider, ending in /v1.
	EngineURL string `yaml:"engine_url" env:"ENGINE_URL"`
	// Anvil is the program of a development chain (see deploy/dev/tool.sh anvil). With it a
	// demo runs DevelopmentChains, on which providers have collateral and are paid. Empty:
	// there is no chain.
	Anvil string `yaml:"anvil" env:"SVC_ANVIL"`
	// DevelopmentChains are the numbers of these chains: 1, 254 and 8453.
	DevelopmentChains []uint64 `yaml:"development_chains" env:"SVC_DEVELOPMENT_CHAINS"`
	// DemoCollateral says whose collateral counts in a demo: development confirms that of
	// every provider, although nobody holds any; chain asks for it.
	DemoCollateral string `yaml:"demo_collateral" env:"SVC_DEMO_COLLATERAL"`
	// OllamaHost is the address at which an Ollama on this machine is looked for, in the
	// form of Ollama's own variable.
	OllamaHost string `yaml:"ollama_host" env:"OLLAMA_HOST"`

	// Services are the services that run in this process; the other services are dialled.
	// A flag sets them.
	Services []string `yaml:"-"`
}

// DefaultConfig is a whole marketplace on this machine. Secrets are made in
// the data directory unless they are given.
func DefaultConfig() Config {
	cfg := Config{
		Config: node.DefaultConfig(), DataDir: ".run", Demo: true, DemoAgent: true,
		DevelopmentChains: []uint64{8453}, DemoCollateral: collateralOfDevelopment,
		Gateway: edgegateway.DefaultConfig(), Hub: providerhub.DefaultConfig(), Router: router.DefaultConfig(),
		Billing: billingledger.DefaultConfig(), Settlement: settlement.DefaultConfig(), Catalog: catalog.DefaultConfig(),
		Signer: signer.DefaultConfig(), Verifier: verifier.DefaultConfig(), Services: node.Names(),
	}
	cfg.Log = node.Log{Level: "warn", Format: "text"}
	cfg.Hub.HubID = node.DefaultHub
	cfg.Gateway.SignUpsPerHour = signUpsPerHour
	cfg.Gateway.OperatorAddr = ""                      // see process.listenForOperators
	cfg.Verifier.Sealed, cfg.Verifier.EdgeURL = "", "" // see withVerifier
	cfg.Billing.Card.SandboxURL = ""                   // see process.prepare
	return cfg
}

// signUpsPerHour is more than a gateway of a cluster allows, because all users of this machine have its address, the
// demo's two among them. A process with some of the services has what the gateway's own program allows.
const signUpsPerHour = 30

// What DemoCollateral may be.
const (
	collateralOfDevelopment = "development"
	collateralOnChain       = "chain"
)

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

// Select chooses the services to run from a comma-separated list; empty means
// all.
func (c *Config) Select(list string) error {
	if list == "" {
		return nil
	}
	c.Services = strings.Split(list, ",")
	var faults []error
	for _, name := range c.Services {
		if !slices.Contains(node.Names(), name) {
			faults = append(faults, fmt.Errorf("-services: there is no service %q; there are %s", name,
				strings.Join(node.Names(), ", ")))
		}
	}
	if !c.all() {
		c.Gateway.SignUpsPerHour = edgegateway.DefaultConfig().SignUpsPerHour
	}
	return errors.Join(faults...)
}

// Validate checks everything and returns all faults.
func (c *Config) Validate() error {
	faults := c.checkChains()
	if !c.NATSURL.IsSet() && c.NATSAddr == "" && !c.all() {
		faults = append(faults,
			errors.New("-services: all processes need one NATS: set SVC_NATS_URL, or SVC_NATS_ADDR in the process that runs it"))
	}
	if c.NATSAddr != "" {
		if err := serve.Loopback(c.NATSAddr); err != nil && !c.TLS.IsSet() {
			faults = append(faults, fmt.Errorf("SVC_NATS_ADDR: %w", err))
		}
		if c.NATSURL.IsSet() {
			faults = append(faults, errors.New("SVC_NATS_ADDR is for the NATS server inside, and SVC_NATS_URL names another"))
		}
	}
	if c.runs(node.BillingLedger) != c.runs(node.ProviderHub) && c.Hub.Pepper.IsZero() && c.Billing.Pepper.IsZero() {
		faults = append(faults, errors.New("-services: billing-ledger and provider-hub share a pepper; set SVC_PEPPER"))
	}
	if !c.Hub.Pepper.IsZero() && !c.Billing.Pepper.IsZero() && c.Hub.Pepper != c.Billing.Pepper {
		faults = append(faults, errors.New("hub.pepper and billing.pepper differ: it is one secret"))
	}
	if c.runs(node.BillingLedger) && c.runs(node.ProviderHub) && c.Hub.PepperPrevious != c.Billing.PepperPrevious {
		faults = append(faults, errors.New("hub.pepper_previous and billing.pepper_previous differ: it is one secret"))
	}
	if c.runs(node.BillingLedger) {
		faults = append(faults, c.Billing.CheckListeners(c.listeners()...))
	}
	if c.runs(node.Settlement) {
		faults = append(faults, c.Settlement.CheckListeners(c.listeners()...))
	}
	if c.runs(node.ChainSigner) {
		faults = append(faults, c.Signer.CheckListeners(c.listeners()...))
	}
	if c.runs(node.ProviderHub) {
		faults = append(faults, c.Hub.CheckListeners(c.listeners()...))
	}
	if c.runs(node.Verifier) {
		faults = append(faults, c.Verifier.CheckListeners(c.listeners()...))
	}
	faults = append(faults, c.checkCards(), c.Check(c.Specs()...))
	faults = append(faults, c.checkServices()...)
	return errors.Join(faults...)
}

// checkCards refuses collateral that cost nothing beside payouts of real money.
func (c *Config) checkCards() error {
	if !c.runs(node.BillingLedger) || !c.runs(node.Settlement) || c.Settlement.Development || c.Billing.Card.MovesMoney() {
		return nil
	}
	for _, chain := range c.Settlement.Chains {
		if chain.ID.Real() && chain.Payouts {
			return fmt.Errorf("billing.card.processor: no money moves in %s, and settlement.chains pays on chain %s",
				c.Billing.Card.Processor, chain.ID)
		}
	}
	return nil
}

// checkChains returns every fault of the settings of development chains.
func (c *Config) checkChains() []error {
	var faults []error
	for _, id := range c.DevelopmentChains {
		if !slices.Contains([]uint64{1, 254, 8453}, id) {
			faults = append(faults, fmt.Errorf("SVC_DEVELOPMENT_CHAINS: the chains are 1, 254 and 8453, not %d", id))
		}
	}
	if c.DemoCollateral != collateralOfDevelopment && c.DemoCollateral != collateralOnChain {
		faults = append(faults, fmt.Errorf("SVC_DEMO_COLLATERAL is development or chain, not %q", c.DemoCollateral))
	}
	if c.DemoCollateral == collateralOnChain && c.Anvil == "" && len(c.Settlement.Chains) == 0 {
		faults = append(faults, errors.New("SVC_DEMO_COLLATERAL: there is no chain: set SVC_ANVIL"))
	}
	return faults
}

// onLoopback reports whether only this machine reaches the process.
func (c *Config) onLoopback() bool {
	for _, address := range c.listeners() {
		if address != "" && serve.Loopback(address) != nil {
			return false
		}
	}
	return true
}

// listeners are the addresses on which the process listens.
func (c *Config) listeners() []string {
	return []string{c.Gateway.HTTPAddr, c.Gateway.OperatorAddr, c.Hub.WSAddr, c.GRPCAddr, c.AdminAddr, c.NATSAddr}
}

func (c *Config) checkServices() []error {
	var faults []error
	hub := c.Hub
	// These are in the data directory unless they are given.
	if hub.JournalDir == "" {
		hub.JournalDir = "journal"
	}
	if hub.Pepper.IsZero() {
		hub.Pepper[0] = 1
	}
	checked := c.Verifier
	if checked.Sealed == "" {
		checked.Sealed = filepath.Join(os.TempDir(), "sealed.json")
	}
	if checked.EdgeURL == "" {
		checked.EdgeURL = verifier.DefaultConfig().EdgeURL
	}
	billing := c.Billing
	if billing.Card.SandboxURL == "" {
		billing.Card.SandboxURL = billingledger.DefaultConfig().Card.SandboxURL
	}
	signing := c.Signer
	if signing.DevelopmentSeed == "" {
		signing.DevelopmentSeed = "seed"
	}
	gateway := c.Gateway
	if gateway.OperatorAddr == "" {
		gateway.OperatorAddr = edgegateway.DefaultConfig().OperatorAddr
	}
	if !gateway.VisitorSecret.IsSet() && c.runs(node.BillingLedger) {
		gateway.VisitorSecret = config.NewSecret("it follows from the pepper")
	}
	for name, validate := range map[string]func() error{
		node.Catalog: c.Catalog.Validate, node.BillingLedger: billing.Validate, node.Settlement: c.Settlement.Validate,
		node.Router: c.Router.Validate, node.ProviderHub: hub.Validate, node.EdgeGateway: gateway.Validate,
		node.Verifier: checked.Validate, node.ChainSigner: signing.Validate,
	} {
		if c.runs(name) {
			faults = append(faults, validate())
		}
	}
	return faults
}

// Specs are the services of the process. The process brings its own database and bus
// where none is named.
func (c *Config) Specs() []node.Spec {
	specs := map[string]node.Spec{}
	for _, spec := range []node.Spec{
		catalog.Spec(), billingledger.Spec(), signer.Spec(), settlement.Spec(), router.Spec(), providerhub.Spec(c.Hub.HubID),
		verifier.Spec(), edgegateway.Spec(),
	} {
		spec.Database, spec.Bus = false, false
		specs[spec.Name] = spec
	}
	chosen := make([]node.Spec, 0, len(c.Services))
	for _, name := range node.Names() {
		if c.runs(name) {
			chosen = append(chosen, specs[name])
		}
	}
	return chosen
}

func (c *Config) runs(name string) bool { return slices.Contains(c.Services, name) }

func (c *Config) all() bool { return len(c.Services) == len(node.Names()) }

// keepers are the services with tables that run here.
func (c *Config) keepers() []string {
	return slices.DeleteFunc(slices.Clone(c.Services), func(name string) bool { return !logins.Keeps(name) })
}

// Load reads the configuration of a process that runs the services in list
// (empty for all) from a file, unless path is empty, and from environ.
func Load(list, path string, environ []string) (Config, error) {
	cfg := DefaultConfig()
	if err := cfg.Select(list); err != nil {
		return cfg, err
	}
	return cfg, config.Read(&cfg, path, environ)
}
