package standalone

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/serve"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/signer/development"
)

// What the platform's keys have on a new development chain: a million dollars to pay out, and coins for gas.
const payoutDollars = 1_000_000_000_000

var gasCoins = new(big.Int).Exp(big.NewInt(10), big.NewInt(22), nil)

// developmentChains are the chains that this process runs.
type developmentChains []*devchain.Chain

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

// startChains starts the development chains that the configuration names, with their contracts, and gives settlement
// and chain-signer the settings for them.
func (p *process) startChains(ctx context.Context) error {
	if p.cfg.Anvil == "" || !p.cfg.all() || !bool(p.cfg.Demo) {
		return nil
	}
	if !p.cfg.onLoopback() {
		return errors.New("SVC_ANVIL is for a process that listens on loopback alone: development chains belong to anybody")
	}
	done := p.con.Step("Chains")
	if !p.cfg.Signer.Development {
		return errors.New("SVC_ANVIL: development chains take development keys alone, and chain-signer was given others")
	}
	p.cfg.Settlement.Development = true
	keys, err := development.Addresses(p.cfg.Signer.DevelopmentSeed)
	if err != nil {
		return err
	}
	var names []string
	for _, id := range p.cfg.DevelopmentChains {
		// Services still send when they are told to stop, so a chain ends after them.
		chain, err := devchain.Start(context.WithoutCancel(ctx),
			devchain.Config{Binary: p.cfg.Anvil, ID: id, Dir: p.dir.Path("chains")})
		if err != nil {
			return fmt.Errorf("start development chain %d: %w", id, err)
		}
		p.infra.onClose(func() error { chain.Stop(); return nil })
		p.chains = append(p.chains, chain)
		if err := equip(ctx, chain, keys); err != nil {
			return fmt.Errorf("set up development chain %d: %w", id, err)
		}
		names = append(names, strconv.FormatUint(id, 10))
	}
	if err := p.configureChains(); err != nil {
		return err
	}
	done("anvil, " + strings.Join(names, ", "))
	return nil
}

// equip deploys the contracts, and gives the keys of a new chain what they need.
func equip(ctx context.Context, chain *devchain.Chain, keys map[string]ethereum.Address) error {
	isNew, err := chain.Deploy(ctx, devchain.Roles{Operator: keys["operator"], Slasher: keys["slasher"],
		Arbiter: keys["arbiter"]})
	if err != nil || !isNew {
		return err
	}
	for _, name := range []string{"payout", "operator", "slasher", "arbiter", "gas"} {
		if err := chain.Fund(ctx, keys[name], gasCoins); err != nil {
			return err
		}
	}
	return chain.Mint(ctx, keys["payout"], payoutDollars)
}

// configureChains gives settlement and chain-signer the settings for the chains.
func (p *process) configureChains() error {
	chains, err := devchain.Settings(p.chains...)
	if err != nil {
		return err
	}
	allowed, err := devchain.SignerSettings(p.chains...)
	if err != nil {
		return err
	}
	if len(p.cfg.Settlement.Quotes.Fixed) == 0 {
		p.cfg.Settlement.Quotes.Fixed = map[string]string{"1:eth": "3000", "8453:eth": "3000", "254:native": "0.5"}
	}
	return errors.Join(p.cfg.Settlement.Chains.UnmarshalText([]byte(chains)),
		p.cfg.Signer.Chains.UnmarshalText([]byte(allowed)))
}

// urls are the chains' addresses as the demo's environment has them.
func (c developmentChains) urls() string {
	list := make([]string, len(c))
	for i, chain := range c {
		list[i] = fmt.Sprintf("%d=%s", chain.ID(), chain.URL)
	}
	return strings.Join(list, ",")
}

// String says where the chains are.
func (c developmentChains) String() string {
	if len(c) == 0 {
		return "none, so no payouts: install npm, and start again"
	}
	return strings.ReplaceAll(c.urls(), ",", " ")
}

// parts are the parts that must not end before the services.
func (c developmentChains) parts() []serve.Part {
	parts := make([]serve.Part, len(c))
	for i, chain := range c {
		parts[i] = serve.Part{Name: fmt.Sprintf("chain %d", chain.ID()), Run: func(ctx context.Context) error {
			select {
			case <-chain.Ended():
				return errors.New("anvil ended by itself")
			case <-ctx.Done():
				return nil
			}
		}}
	}
	return parts
}
