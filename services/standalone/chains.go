package standalone

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/signer/development"
)

// What the platform's keys have on a new development chain: a million dollars to pay out, and coins for gas.
const payoutDollars = 1_000_000_000_000

var gasCoins = new(big.Int).Exp(big.NewInt(10), big.NewInt(22), nil)

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
