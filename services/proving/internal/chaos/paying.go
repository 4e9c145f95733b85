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
	"svc.internal/services/proving/internal/chaos/ethnode"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/signer/development"
)

const (
	// payingChain is the chain on which providers are paid, and payingAsset what they are paid in.
	payingChain = 8453
	payingAsset = "8453:usdc"
	// hotMicros is what the wallet for payouts begins with, in millionths of a dollar.
	hotMicros = 1_000_000_000_000
)

// hotGas is what the platform's keys have for gas, in wei.
var hotGas = new(big.Int).Exp(big.NewInt(10), big.NewInt(21), nil)

// paying is the development chain of a run with nights, on which providers are paid. Settlement asks two nodes of it,
// of which the second one may be away or lie.
type paying struct {
	chain *devchain.Chain
	node  *ethnode.Node
	keys  map[string]ethereum.Address
	// reorgs is held while blocks are taken off.
	reorgs sync.Mutex
}

// startChain starts the chain with its contracts and wallets, for the signer whose seed is in a file. Where anvil
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
	p.chain, err = devchain.Start(context.WithoutCancel(ctx), devchain.Config{Binary: binary, ID: payingChain})
	if err != nil {
		return nil, err
	}
	if p.node, err = ethnode.Start(p.chain.URL); err != nil {
		return nil, err
	}
	if _, err = p.chain.Deploy(ctx, devchain.Roles{Operator: p.keys["operator"], Slasher: p.keys["slasher"],
		Arbiter: p.keys["arbiter"]}); err != nil {
		return nil, err
	}
	for _, name := range []string{"payout", "operator", "slasher", "arbiter", "gas"} {
		if err = p.chain.Fund(ctx, p.keys[name], hotGas); err != nil {
			return nil, err
		}
	}
	return p, p.chain.Mint(ctx, p.keys["payout"], hotMicros)
}

func (p *paying) close() error {
	if p == nil {
		return nil
	}
	var err error
	if p.node != nil {
		err = p.node.Close()
	}
	if p.chain != nil {
		p.chain.Stop()
	}
	return err
}

// configure adds the chain to the settings of settlement and of its signer.
func (p *paying) configure(base map[string]map[string]any) (map[string]map[string]any, error) {
	with := maps.Clone(base)
	text, err := devchain.Settings(p.chain)
	if err != nil {
		return nil, err
	}
	var chains, allowed []object
	if err := json.Unmarshal([]byte(text), &chains); err != nil {
		return nil, fmt.Errorf("read a chain's settings: %w", err)
	}
	chains[0]["rpcs"] = []string{p.chain.URL, p.node.URL}
	chains[0]["block_time"] = "200ms"
	if text, err = devchain.SignerSettings(p.chain); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &allowed); err != nil {
		return nil, fmt.Errorf("read a signer's settings: %w", err)
	}
	settlement := object{"chains": chains, "development": true,
		"payouts": object{"recheck_interval": "3s"},
		"quotes":  object{"fixed": object{"8453:eth": "3000", "254:native": "0.5"}}}
	if batch, ok := base[fleet.Settlement]["settlement"].(object); ok {
		maps.Copy(settlement, batch)
	}
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
