package payout

import (
	"cmp"
	"context"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
)

// Terms are the terms of a provider's next payout. Amounts are gross.
type Terms struct {
	Minimum, Maximum money.NanoUSD
	// Chains are those on which providers are paid now, by their number.
	Chains []ChainTerms
	// Interval is how long after one payout the provider may ask for the next on a chain.
	Interval time.Duration
	// NextAt is when the provider may ask again on its settlement chain; zero where it need not wait. A payout that has
	// not ended is waited for beside it.
	NextAt time.Time
	// Alone is as in Config. Above One two operators approve.
	Alone, One money.NanoUSD
}

// ChainTerms is what is paid on a chain, and for what fee.
type ChainTerms struct {
	Chain  chain.ID
	Symbol string
	Fee    money.NanoUSD
}

// Terms returns the terms of a provider's next payout.
func (k *Keeper) Terms(ctx context.Context, id ids.ProviderID) (Terms, error) {
	next, err := k.deps.Store.NextAt(ctx, id)
	if err != nil {
		return Terms{}, err
	}
	t := Terms{Minimum: Minimum, Maximum: maximum, Interval: Every, NextAt: next, Alone: k.alone(), One: One}
	for id, asset := range k.cfg.Assets {
		t.Chains = append(t.Chains, ChainTerms{Chain: id, Symbol: asset.Symbol, Fee: Fee})
	}
	slices.SortFunc(t.Chains, func(a, b ChainTerms) int { return cmp.Compare(a.Chain, b.Chain) })
	return t, nil
}

// ApprovalsNeeded returns how many operators must approve a payout: two above One, none where the platform approves by
// itself, and else one.
func (k *Keeper) ApprovalsNeeded(p *Payout) int {
	switch {
	case p.Gross > One:
		return 2
	case len(p.Consents) > 0:
		return 1
	case p.State == Approved || p.State == Signing || p.State == Submitted || p.State == Confirmed:
		return 0 // nobody consented, so the platform did
	case p.Waiting == WaitsForApproval || p.Gross > k.alone():
		return 1
	default:
		return 0
	}
}
