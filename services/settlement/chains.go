package settlement

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

// chainWork is what reads chains. Without any it does nothing.
type chainWork struct {
	// chains are by their number.
	chains map[chain.ID]*evm.Chain
	watch  *watchWork
}

func newChainWork(cfg Config, st *store.Store, deps Deps) (*chainWork, error) {
	meters, err := newChainMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	w := &chainWork{chains: map[chain.ID]*evm.Chain{}, watch: &watchWork{cfgs: cfg.Chains,
		store: store.Watch{Store: st}, log: deps.Log, meters: meters, small: small}}
	for _, one := range cfg.Chains {
		reader, err := evm.Dial(one)
		if err != nil {
			return nil, err
		}
		w.chains[one.ID] = reader
		w.watch.chains = append(w.watch.chains, watch.Reader(reader))
	}
	return w, nil
}

// run reads chains until ctx ends.
func (w *chainWork) run(ctx context.Context) {
	w.watch.run(ctx)
	for _, c := range w.chains {
		c.Close()
	}
}

// blockAt reads a final block of a chain.
func (w *chainWork) blockAt(ctx context.Context, on chain.ID, number uint64) (chain.Block, error) {
	c, ok := w.chains[on]
	if !ok {
		return chain.Block{}, fmt.Errorf("chain %s is not configured", on)
	}
	return c.BlockAt(ctx, number)
}

// cent is a cent in units of USDC.
var cent = chain.NewAmount(10_000)

// small reports whether an amount is below a cent.
func small(asset chain.Asset, amount chain.Amount) bool {
	return asset.Kind == chain.USDC && amount.Cmp(cent) < 0
}

// checkChains returns every fault of the chains. One node alone may lie, so chains on which dollars move have two.
func (c Config) checkChains() error {
	var faults []error
	if err := c.Chains.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("settlement: chains: %w", err))
	}
	for _, one := range c.Chains {
		if one.ID.Real() && len(one.RPCs) < 2 && !c.Development {
			faults = append(faults, fmt.Errorf("settlement: chains: chain %s needs rpcs of at least two operators; one is for "+
				"development (SVC_SETTLEMENT_DEVELOPMENT)", one.ID))
		}
	}
	return errors.Join(faults...)
}
