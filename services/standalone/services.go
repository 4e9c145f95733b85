package standalone

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/config"
	"svc.internal/pkg/node"
	billingledger "svc.internal/services/billing-ledger"
	catalog "svc.internal/services/catalog"
	edgegateway "svc.internal/services/edge-gateway"
	providerhub "svc.internal/services/provider-hub"
	router "svc.internal/services/router"
	settlement "svc.internal/services/settlement"
	signer "svc.internal/services/settlement/signer"
	"svc.internal/services/standalone/localdata"
	verifier "svc.internal/services/verifier"
)

// withData completes a configuration from the data directory: with the journal, and with
// the secrets that were not given.
func withData(cfg Config, dir *localdata.Dir) (Config, error) {
	if cfg.Hub.JournalDir == "" {
		cfg.Hub.JournalDir = dir.Path("journal")
	}
	pepper, err := choosePepper(cfg, dir)
	if err != nil {
		return cfg, fmt.Errorf("pepper: %w", err)
	}
	cfg.Hub.Pepper, cfg.Billing.Pepper = pepper, pepper
	if !cfg.NATSSecret.IsSet() {
		cfg.NATSSecret = config.NewSecret(bus.Password(hex.EncodeToString(pepper[:]), "secret"))
	}
	if !cfg.Gateway.VisitorSecret.IsSet() && cfg.runs(node.BillingLedger) {
		cfg.Gateway.VisitorSecret = config.NewSecret(bus.Password(hex.EncodeToString(pepper[:]), "visitors"))
	}
	// A process with some of the services is one of several: a token of its own would open it alone, to whoever reads
	// its disk.
	if cfg.all() && (!cfg.Gateway.MachineTokens.IsSet() || bool(cfg.Demo)) {
		tokens, err := dir.MachineTokens()
		if err != nil {
			return cfg, fmt.Errorf("machine tokens: %w", err)
		}
		cfg.Gateway.MachineTokens = config.NewSecret(cfg.Gateway.MachineTokens.Reveal() + "\n" + tokens)
	}
	if cfg.Billing.Mail.Sender == billingledger.NoLetters && cfg.onLoopback() {
		cfg.Billing.Mail.Sender, cfg.Billing.Mail.Folder = billingledger.LettersAsFiles, dir.Path("letters")
	}
	cfg = withSigner(cfg, dir)
	if cfg.runs(node.ProviderHub) {
		cfg.Gateway.NearHubID = cfg.Hub.HubID
	}
	return withVerifier(cfg, dir)
}

// withOperator lets a demo that only this machine reaches make the first operator with a token of the data directory,
// which it returns. Where bootstrap tokens were given, whoever has one makes the first operator.
func withOperator(cfg Config, dir *localdata.Dir) (with Config, token string, err error) {
	if !cfg.all() || !bool(cfg.Demo) || !cfg.onLoopback() || cfg.Gateway.AdminTokens.IsSet() {
		return cfg, "", nil
	}
	list, err := dir.BootstrapTokens()
	if err != nil {
		return cfg, "", fmt.Errorf("bootstrap tokens: %w", err)
	}
	cfg.Gateway.AdminTokens = config.NewSecret(list)
	token, err = dir.BootstrapToken()
	return cfg, token, err
}

// withSigner gives a demo that only this machine reaches development keys, unless it was
// given other ones.
func withSigner(cfg Config, dir *localdata.Dir) Config {
	if cfg.Signer.DevelopmentSeed == "" {
		cfg.Signer.DevelopmentSeed = dir.Path("signer", "seed")
	}
	if cfg.all() && bool(cfg.Demo) && cfg.onLoopback() && cfg.Signer.Keys == (signer.Keys{}) &&
		!cfg.Signer.DepositSeed.IsSet() {
		cfg.Signer.Development = true
	}
	return cfg
}

// demoHaste divides the pauses of the verifier's loops, because a person waits for the
// demo's first benchmark.
const demoHaste = 10

// demoLook is the pause between two looks for a day that has ended, because a person waits
// for its batch.
const demoLook = 2 * time.Second

// withVerifier completes the settings of verification. A demo that only this machine
// reaches is for development: its providers need no collateral, unless SVC_DEMO_COLLATERAL
// asks for it, and short benchmarks admit them.
func withVerifier(cfg Config, dir *localdata.Dir) (Config, error) {
	if cfg.all() && bool(cfg.Demo) && cfg.onLoopback() {
		development := cfg.DemoCollateral == collateralOfDevelopment
		cfg.Settlement.DevelopmentCollateral, cfg.Hub.DevelopmentCollateral = development, development
		cfg.Verifier.Development = true
		cfg.Billing.SealInterval = min(cfg.Billing.SealInterval, demoLook)
		cfg.Settlement.Batch.Interval = min(cfg.Settlement.Batch.Interval, demoLook)
		if cfg.Verifier.Haste == 0 {
			cfg.Verifier.Haste = demoHaste
		}
	}
	if cfg.Verifier.EdgeURL == "" && !cfg.runs(node.EdgeGateway) {
		cfg.Verifier.EdgeURL = verifier.DefaultConfig().EdgeURL
	}
	if cfg.Verifier.Sealed != "" || !cfg.runs(node.Verifier) {
		return cfg, nil
	}
	cfg.Verifier.Sealed = dir.Path("verifier", "sealed.json")
	if cfg.Verifier.Development || !verifier.InCheckout(cfg.Verifier.Sealed) {
		return cfg, nil
	}
	home, err := os.UserConfigDir()
	if err != nil {
		return cfg, fmt.Errorf("choose a file for the sealed settings (SVC_VERIFIER_SEALED): %w", err)
	}
	whole, err := filepath.Abs(dir.Path())
	if err != nil {
		return cfg, fmt.Errorf("choose a file for the sealed settings (SVC_VERIFIER_SEALED): %w", err)
	}
	name := sha256.Sum256([]byte(whole))
	cfg.Verifier.Sealed = filepath.Join(home, "svc", "sealed-"+hex.EncodeToString(name[:8])+".json")
	return cfg, nil
}

// choosePepper is the pepper that was given for either service, or the data directory's
// own.
func choosePepper(cfg Config, dir *localdata.Dir) (apikey.Pepper, error) {
	switch {
	case !cfg.Billing.Pepper.IsZero():
		return cfg.Billing.Pepper, nil
	case !cfg.Hub.Pepper.IsZero():
		return cfg.Hub.Pepper, nil
	default:
		return dir.Pepper()
	}
}

// build adds the services of this process in the order in which they start.
func build(ctx context.Context, cfg Config, n *node.Node) error {
	builders := map[string]func() error{
		node.Catalog:       func() error { return catalog.Build(ctx, cfg.Catalog, n) },
		node.BillingLedger: func() error { return billingledger.Build(ctx, cfg.Billing, n) },
		node.ChainSigner:   func() error { return signer.Build(ctx, cfg.Signer, n) },
		node.Settlement:    func() error { return settlement.Build(ctx, cfg.Settlement, n) },
		node.Router:        func() error { return router.Build(ctx, cfg.Router, n) },
		node.ProviderHub:   func() error { return providerhub.Build(ctx, cfg.Hub, n) },
		node.Verifier:      func() error { return verifier.Build(ctx, cfg.Verifier, n) },
		node.EdgeGateway:   func() error { return edgegateway.Build(ctx, cfg.Gateway, n) },
	}
	for _, name := range n.Names() {
		if err := builders[name](); err != nil {
			return fmt.Errorf("set up %s: %w", name, err)
		}
	}
	return nil
}
