package chaos

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"sync"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/chaos/courier"
	"svc.internal/services/proving/internal/chaos/ethnode"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/settlement/devchain"
)

const (
	// payingChain is the chain on which providers are paid in dollars, and coinChain that on which they are paid in its
	// coin.
	payingChain = paychain.Dollars
	coinChain   = paychain.Coins
)

// The assets of the books that the platform holds on its chains.
const (
	assetUSDC = "8453:usdc"
	assetETH  = "8453:eth"
	assetCoin = "254:native"
)

// paying are the development chains of a run with nights, on which providers are paid. Settlement asks two nodes of the
// first one, of which the second one may be away or lie.
type paying struct {
	*paychain.Chains
	chain *devchain.Chain
	coin  *devchain.Chain
	node  *ethnode.Node
	// courier brings the events of the card processor.
	courier *courier.Courier
	// reorgs is held while blocks are taken off.
	reorgs sync.Mutex
}

// startChain starts the chains with their contracts and wallets, for the signer whose seed is in a file. Where anvil
// cannot be installed there is none, unless this is CI.
func startChain(ctx context.Context, seedFile string) (_ *paying, err error) {
	chains, err := paychain.Start(ctx, seedFile, payingChain, coinChain)
	if paychain.MayBeMissing(err) {
		return nil, nil //nolint:nilnil // there is no chain
	}
	if err != nil {
		return nil, err
	}
	p := &paying{Chains: chains, chain: chains.Chain(payingChain), coin: chains.Chain(coinChain)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.node, err = ethnode.Start(p.chain.URL); err != nil {
		return nil, err
	}
	if p.courier, err = courier.Start(); err != nil {
		return nil, err
	}
	return p, p.Fill(ctx)
}

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
	p.Stop()
	return err
}

// configure adds the chains to the settings of settlement and of its signer.
func (p *paying) configure(base map[string]map[string]any) (map[string]map[string]any, error) {
	with := maps.Clone(base)
	chains, allowed, err := p.Settings()
	if err != nil {
		return nil, err
	}
	chains[0]["rpcs"] = []string{p.chain.URL, p.node.URL}
	settlement := object{"chains": chains, "development": true,
		"payouts": object{"recheck_interval": "3s"},
		"quotes":  object{"fixed": object{assetETH: paychain.ETHPrice, assetCoin: paychain.CoinPrice}}}
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

// beneficiary is the address of a provider, by its number: nobody has its key.
func beneficiary(number int) string {
	a := ethereum.Address{0: 0xbe, 19: byte(number + 1)}
	return "0x" + hex.EncodeToString(a[:])
}
