// Package paychain is what a fleet needs to pay its providers: development chains with the contracts of settlement and
// with wallets for the keys of chain-signer, and the settings by which settlement and chain-signer know both.
//
// A fleet has its seed in a file, so the chains can be started before the fleet, for whose settings they are needed.
package paychain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/signer/development"
)

// The chains on which providers are paid: Dollars in the test dollar, and Coins in the chain's coin.
const (
	Dollars = 8453
	Coins   = 254
)

// GasCoins are the coins that each key of the platform has for gas, on each chain.
const GasCoins = 1_000

// keys are the names of the keys that send.
var keys = []string{"payout", "operator", "slasher", "arbiter", "gas"}

// Chains are running chains.
type Chains struct {
	// Keys are the addresses of chain-signer's keys, by name.
	Keys map[string]ethereum.Address
	// All are the chains, in the order in which they were asked for.
	All []*devchain.Chain
}

// Seed is where the signer of a fleet has the seed of its keys.
func Seed(fleetDir string) string { return filepath.Join(fleetDir, "signer", "seed") }

// Start starts chains with their contracts and wallets, for the signer whose seed is in a file. Where anvil cannot be
// installed, the error is anvil.ErrMissing.
func Start(ctx context.Context, seedFile string, ids ...uint64) (_ *Chains, err error) {
	root, err := fleet.Tree()
	if err != nil {
		return nil, err
	}
	binary, err := anvil.Install(ctx, root)
	if err != nil {
		return nil, err
	}
	c := &Chains{}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if c.Keys, err = development.Addresses(seedFile); err != nil {
		return nil, err
	}
	for _, id := range ids {
		one, err := devchain.Start(context.WithoutCancel(ctx), devchain.Config{Binary: binary, ID: id})
		if err != nil {
			return nil, err
		}
		c.All = append(c.All, one)
		if err := c.prepare(ctx, one); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// MayBeMissing reports whether an error says that anvil cannot be installed, on a machine that may be without: CI has
// it.
func MayBeMissing(err error) bool { return errors.Is(err, anvil.ErrMissing) && os.Getenv("CI") == "" }

// prepare deploys the contracts and fills the wallets. The treasury holds nothing, which on a development chain it
// otherwise does.
func (c *Chains) prepare(ctx context.Context, one *devchain.Chain) error {
	_, err := one.Deploy(ctx, devchain.Roles{Operator: c.Keys["operator"], Slasher: c.Keys["slasher"],
		Arbiter: c.Keys["arbiter"]})
	for _, name := range keys {
		err = errors.Join(err, one.Fund(ctx, c.Keys[name], Whole(GasCoins)))
	}
	treasury, parsed := ethereum.ParseAddress(devchain.Treasury)
	return errors.Join(err, parsed, one.Fund(ctx, treasury, new(big.Int)))
}

// Whole is so many coins of a chain, in its smallest unit.
func Whole(coins int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(coins), new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil))
}

// Chain is the chain of a number, which was started.
func (c *Chains) Chain(id uint64) *devchain.Chain {
	for _, one := range c.All {
		if one.ID() == id {
			return one
		}
	}
	return nil
}

// Stop ends the chains.
func (c *Chains) Stop() {
	for _, one := range c.All {
		one.Stop()
	}
}

// object is a mapping of a file of settings.
type object = map[string]any

// Settings are what settlement and chain-signer must know of the chains: the settings settlement.chains and
// signer.chains. Settlement looks for a block five times a second.
func (c *Chains) Settings() (chains, allowed []map[string]any, err error) {
	for into, settings := range map[*[]object]func(...*devchain.Chain) (string, error){
		&chains: devchain.Settings, &allowed: devchain.SignerSettings,
	} {
		text, err := settings(c.All...)
		if err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return nil, nil, fmt.Errorf("read the settings of development chains: %w", err)
		}
	}
	for _, one := range chains {
		one["block_time"] = "200ms"
	}
	return chains, allowed, nil
}

// What the wallet for payouts begins with: HotMicros millionths of a dollar on Dollars, and HotCoins coins on Coins.
const (
	HotMicros = 1_000_000_000_000
	HotCoins  = 100_000
)

// Fill gives the wallet for payouts what it begins with. Both chains were started.
func (c *Chains) Fill(ctx context.Context) error {
	return errors.Join(c.Chain(Coins).Fund(ctx, c.Keys["payout"], Whole(HotCoins)),
		c.Chain(Dollars).Mint(ctx, c.Keys["payout"], HotMicros))
}

// The prices of the coins of both chains, in dollars.
const (
	ETHPrice  = "3000"
	CoinPrice = "0.5"
)

// spareUnits are billionths of a coin that the platform holds beyond its books: they count whole ones, and a
// transaction that is mined again may cost more.
const spareUnits = 1_000_000_000

// Book tells the books what Fill gave, as if the bank had bought it. What other keys have for gas is nobody's.
func Book(ctx context.Context, books peers.Services) error {
	for i, b := range []peers.Bought{
		{Token: "8453:usdc", Units: HotMicros},
		{Token: "8453:eth", Units: GasCoins*1_000_000_000 - spareUnits, Rate: 3_000_000_000_000},
		{Token: "254:native", Units: HotCoins*1_000_000_000 - spareUnits, Rate: 500_000_000},
	} {
		b.Chain, _, _ = strings.Cut(b.Token, ":")
		b.Transaction = "0x" + strings.Repeat(fmt.Sprintf("f%d", i), 32)
		if err := books.BuyTokens(ctx, b); err != nil {
			return err
		}
	}
	return nil
}
