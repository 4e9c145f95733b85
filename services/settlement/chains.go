package settlement

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/node"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/quote"
	"svc.internal/services/settlement/internal/rpc"
	"svc.internal/services/settlement/internal/screen"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

// chainWork is what reads chains and credits deposits. Without any chain it does nothing.
type chainWork struct {
	// chains are by their number.
	chains   map[chain.ID]*evm.Chain
	screener *screen.Screener
	quotes   *quote.Keeper
	watch    *watchWork
	deposits *depositWork
	xpub     *derivation
	kept     store.Deposits
}

func newChainWork(cfg Config, st *store.Store, deps Deps) (*chainWork, error) {
	meters, err := newChainMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	w := &chainWork{chains: map[chain.ID]*evm.Chain{}, xpub: &derivation{xpub: cfg.DepositXpub, signer: deps.Signer}}
	if w.screener, err = screen.New(cfg.Screen, deps.Clock.Now); err != nil {
		return nil, err
	}
	if w.quotes, err = cfg.Quotes.Keeper(store.Quotes{Store: st}); err != nil {
		return nil, err
	}
	w.watch = &watchWork{cfgs: cfg.Chains, store: store.Watch{Store: st}, log: deps.Log, meters: meters, small: w.small}
	balances := map[chain.ID]deposit.Balances{}
	w.deposits = &depositWork{quotes: w.quotes, log: deps.Log, meters: meters}
	for _, one := range cfg.Chains {
		reader, err := evm.Dial(one)
		if err != nil {
			return nil, err
		}
		w.chains[one.ID], balances[one.ID] = reader, reader
		w.watch.chains = append(w.watch.chains, watch.Reader(reader))
		w.deposits.chains = append(w.deposits.chains, one.ID)
	}
	w.kept = store.Deposits{Store: st, MaxAddresses: cfg.MaxDepositAddresses}
	w.deposits.decider = &deposit.Decider{Store: w.kept, Screener: w.screener, Quotes: w.quotes, Chains: balances,
		Config: cfg.Chains, Halted: w.watch.store.Halted}
	w.deposits.poster = &deposit.Poster{Store: w.kept, Ledger: peers.DepositBooks{Client: deps.Posting}}
	w.deposits.growth = &deposit.Growth{Store: w.kept, Chains: balances, Config: cfg.Chains, Small: w.small}
	return w, nil
}

// register adds the services of deposits and chains.
func (w *chainWork) register(r grpc.ServiceRegistrar) {
	keeper := &deposit.Keeper{Lists: w.kept}
	readers := map[chain.ID]watch.Reader{}
	for id, c := range w.chains {
		readers[id] = c
	}
	deposits := &rpc.Deposits{Keeper: keeper, Chains: w.watch.cfgs, Gateway: node.EdgeGateway, Address: w.address,
		States: w.watch.store, Quotes: w.quotes}
	settlementv1.RegisterDepositServiceServer(r, deposits)
	settlementv1.RegisterConsumerDepositServiceServer(r, &rpc.ConsumerDeposits{Deposits: deposits})
	settlementv1.RegisterChainAdminServiceServer(r, &rpc.ChainAdmin{Keeper: keeper, Chains: w.watch.cfgs, Readers: readers,
		States: w.watch.store, Lifter: &watch.Lifter{Store: w.watch.store, Chains: readers}})
}

// address returns the deposit address of an account.
func (w *chainWork) address(ctx context.Context, account ids.AccountID) (deposit.Address, error) {
	return w.kept.Address(ctx, account, func(index uint32) (chain.Address, error) { return w.xpub.at(ctx, index) })
}

// run reads chains and credits deposits until ctx ends.
func (w *chainWork) run(ctx context.Context) {
	var group errgroup.Group
	group.Go(func() error {
		w.watch.run(ctx)
		return nil
	})
	w.deposits.run(ctx)
	_ = group.Wait() // it returns no error
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

// cent is a cent in nano-USD.
const cent = 10_000_000

// small reports whether an amount is below a cent, by the last price of a coin. Before any price none is.
func (w *chainWork) small(asset chain.Asset, amount chain.Amount) bool {
	units, _, ok := amount.Units(asset.Decimals)
	if !ok {
		return false
	}
	var price *sending.Quote
	if asset.Kind == chain.Coin {
		rate := w.quotes.Last(asset.Chain)
		if rate == 0 {
			return false
		}
		price = &sending.Quote{Rate: rate}
	}
	down, _, err := deposit.Value(units, price)
	return err == nil && down < cent
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
