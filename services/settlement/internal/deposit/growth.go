package deposit

import (
	"context"
	"math"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/watch"
)

// growthPage is how many balances are compared at once.
const growthPage = 1_000

// Holding is what should be at an address.
type Holding struct {
	Index    uint32
	Address  chain.Address
	Recorded chain.Amount
}

// GrowthStore keeps what the hourly look at balances finds.
type GrowthStore interface {
	// GrowthDue returns the last block that was read of a chain, once an hour: of two callers one gets it. A look that
	// fails is not made again before the next hour.
	GrowthDue(ctx context.Context, id chain.ID) (chain.Block, bool, error)
	// Holdings returns what should be at addresses from an index on as of a block: at most a limit of them, by index.
	Holdings(ctx context.Context, token string, block uint64, from int64, limit int) ([]Holding, error)
	// Grew adds transfers that balances show.
	Grew(ctx context.Context, transfers []watch.Transfer) error
}

// Growth finds coins that arrived inside of transactions of others, and coins on chains where they are not credited. No
// transfer says from whom they came, so they are stray.
type Growth struct {
	Store  GrowthStore
	Chains map[chain.ID]Balances
	Config chain.Configs
	// Small reports whether an amount is too small for a row of its own. Here it is left out.
	Small func(asset chain.Asset, amount chain.Amount) bool
}

// Pass looks at a chain, once an hour. What it finds has the block's hash and the index of its address as its name.
func (g *Growth) Pass(ctx context.Context, id chain.ID) (found int, err error) {
	block, due, err := g.Store.GrowthDue(ctx, id)
	cfg, ok := g.Config.Of(id)
	if err != nil || !due || !ok {
		return 0, err
	}
	asset, _ := cfg.Asset(chain.Coin)
	for from := int64(0); ; {
		page, err := g.Store.Holdings(ctx, asset.Name(), block.Number, from, growthPage)
		if err != nil {
			return found, err
		}
		n, err := g.compare(ctx, asset, block, page)
		found += n
		if err != nil {
			return found, err
		}
		if len(page) < growthPage {
			return found, nil
		}
		from = int64(page[len(page)-1].Index) + 1
	}
}

func (g *Growth) compare(ctx context.Context, asset chain.Asset, block chain.Block, page []Holding) (int, error) {
	if len(page) == 0 {
		return 0, nil
	}
	addresses := make([]chain.Address, len(page))
	for i, h := range page {
		addresses[i] = h.Address
	}
	balances, err := g.Chains[asset.Chain].Balances(ctx, addresses, block)
	if err != nil {
		return 0, err
	}
	var grown []watch.Transfer
	for i, h := range page {
		more, above := balances[i].Sub(h.Recorded)
		units, dust, counted := more.Units(asset.Decimals)
		if !above || !counted || units == 0 || units == math.MaxInt64 || g.Small(asset, more) {
			continue
		}
		grown = append(grown, watch.Transfer{
			Key:   watch.Key{Chain: asset.Chain, Transaction: block.Hash, Place: h.Index},
			Block: block.Number, BlockHash: block.Hash, At: block.At, Token: asset.Name(), Index: h.Index, Amount: more,
			Units: units, Dust: dust})
	}
	return len(grown), g.Store.Grew(ctx, grown)
}
