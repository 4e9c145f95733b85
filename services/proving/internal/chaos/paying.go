package chaos

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"sync"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/chaos/courier"
	"svc.internal/services/proving/internal/chaos/ethnode"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/signer/development"
)

const (
	// payingChain is the chain on which providers are paid in dollars, and coinChain that on which they are paid in its
	// coin.
	payingChain = 8453
	coinChain   = 254
	// hotMicros is what the wallet for payouts begins with, in millionths of a dollar, and hotCoins how many coins it
	// has on coinChain. gasCoins are the coins of each other key of the platform, on each chain.
	hotMicros = 1_000_000_000_000
	hotCoins  = 100_000
	gasCoins  = 1_000
)

// The assets of the books that the platform holds on its chains, and the prices of coins.
const (
	assetUSDC = "8453:usdc"
	assetETH  = "8453:eth"
	assetCoin = "254:native"
	ethPrice  = "3000"
	coinPrice = "0.5"
)

// platformKeys are the keys that send.
var platformKeys = []string{"payout", "operator", "slasher", "arbiter", "gas"}

// paying are the development chains of a run with nights, on which providers are paid. Settlement asks two nodes of the
// first one, of which the second one may be away or lie.
type paying struct {
	chain *devchain.Chain
	coin  *devchain.Chain
	node  *ethnode.Node
	// courier brings the events of the card processor.
	courier *courier.Courier
	keys    map[string]ethereum.Address
	// reorgs is held while blocks are taken off.
	reorgs sync.Mutex
}

// startChain starts the chains with their contracts and wallets, for the signer whose seed is in a file. Where anvil
// cannot be installed there is none, unless this is CI.
func startChain(ctx context.Context, seedFile string) (_ *paying, err error) {
	root, err := fleet.Tree()
	if err != nil {
		return nil, err
	}
	binary, err := anvil.Install(ctx, root)
	if errors.Is(err, anvil.ErrMissing) && os.Getenv("CI") == "" {
		return nil, nil //nolint:nilnil // there is no chain
	}
	if err != nil {
		return nil, err
	}
	p := &paying{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.keys, err = development.Addresses(seedFile); err != nil {
		return nil, err
	}
	if p.chain, err = p.start(ctx, binary, payingChain); err != nil {
		return nil, err
	}
	if p.coin, err = p.start(ctx, binary, coinChain); err != nil {
		return nil, err
	}
	if p.node, err = ethnode.Start(p.chain.URL); err != nil {
		return nil, err
	}
	if p.courier, err = courier.Start(); err != nil {
		return nil, err
	}
	return p, errors.Join(p.coin.Fund(ctx, p.keys["payout"], coins(hotCoins)),
		p.chain.Mint(ctx, p.keys["payout"], hotMicros))
}

// start starts a chain. The treasury holds nothing, which on a development chain it otherwise does.
func (p *paying) start(ctx context.Context, binary string, id uint64) (*devchain.Chain, error) {
	c, err := devchain.Start(context.WithoutCancel(ctx), devchain.Config{Binary: binary, ID: id})
	if err != nil {
		return nil, err
	}
	_, err = c.Deploy(ctx, devchain.Roles{Operator: p.keys["operator"], Slasher: p.keys["slasher"],
		Arbiter: p.keys["arbiter"]})
	for _, name := range platformKeys {
		err = errors.Join(err, c.Fund(ctx, p.keys[name], coins(gasCoins)))
	}
	treasury, parsed := ethereum.ParseAddress(devchain.Treasury)
	if err = errors.Join(err, parsed, c.Fund(ctx, treasury, new(big.Int))); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// coins are so many coins of a chain, in its smallest unit.
func coins(whole int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(whole), new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil))
}

// all are the chains.
func (p *paying) all() []*devchain.Chain { return []*devchain.Chain{p.chain, p.coin} }

func (p *paying) close() error {
	if p == nil {
		return nil
	}
	var err error
	if p.node != nil {
		err = p.node.Close()
	}
	if p.courier != nil {
		err = errors.Join(err, p.courier.Close())
	}
	for _, c := range p.all() {
		if c != nil {
			c.Stop()
		}
	}
	return err
}

// configure adds the chains to the settings of settlement and of its signer.
func (p *paying) configure(base map[string]map[string]any) (map[string]map[string]any, error) {
	with := maps.Clone(base)
	text, err := devchain.Settings(p.all()...)
	if err != nil {
		return nil, err
	}
	var chains, allowed []object
	if err := json.Unmarshal([]byte(text), &chains); err != nil {
		return nil, fmt.Errorf("read a chain's settings: %w", err)
	}
	chains[0]["rpcs"] = []string{p.chain.URL, p.node.URL}
	for _, one := range chains {
		one["block_time"] = "200ms"
	}
	if text, err = devchain.SignerSettings(p.all()...); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &allowed); err != nil {
		return nil, fmt.Errorf("read a signer's settings: %w", err)
	}
	settlement := object{"chains": chains, "development": true,
		"payouts": object{"recheck_interval": "3s"},
		"quotes":  object{"fixed": object{"8453:eth": ethPrice, "254:native": coinPrice}}}
	if batch, ok := base[fleet.Settlement]["settlement"].(object); ok {
		maps.Copy(settlement, batch)
	}
	settlement["collateral"] = object{"card": true, "card_minimum_cents": 2_000}
	billing := object{"card": object{"sandbox_url": p.courier.URL}}
	if own, ok := base[fleet.Billing]["billing"].(object); ok {
		maps.Copy(billing, own)
	}
	with[fleet.Billing] = object{"billing": billing}
	with[fleet.Settlement] = object{"settlement": settlement}
	with[fleet.Signer] = object{"signer": object{"chains": allowed}}
	return with, nil
}

// seedFile is where the signer of a fleet has the seed of its keys.
func seedFile(fleetDir string) string { return filepath.Join(fleetDir, "signer", "seed") }

// beneficiary is the address of a provider, by its number: nobody has its key.
func beneficiary(number int) string {
	a := ethereum.Address{0: 0xbe, 19: byte(number + 1)}
	return "0x" + hex.EncodeToString(a[:])
}
