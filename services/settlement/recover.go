package settlement

import (
	"context"
	"time"

	"svc.internal/pkg/node"
	"svc.internal/pkg/node/database"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/store"
)

// newAdopter makes what takes lost nonces and payouts into the database.
func newAdopter(cfg Config, st *store.Store, reads *chainWork, deps Deps) (*adopt.Adopter, error) {
	parts := adopt.Deps{Store: store.Adoptions{Store: st}, Signer: peers.NoSigner{},
		Books:  peers.PayoutBooks{Posting: deps.Posting, Accruals: deps.Accruals},
		Payees: peers.Payees{Client: deps.Payees}}
	if deps.Signer != nil {
		parts.Signer = peers.ChainSigner{Client: deps.Signer}
	}
	for _, one := range cfg.Chains {
		c, err := adoptable(one)
		if err != nil {
			return nil, err
		}
		c.Node = reads.chains[one.ID]
		parts.Chains = append(parts.Chains, c)
	}
	return adopt.New(parts), nil
}

// adoptable is a chain without its node.
func adoptable(cfg chain.Config) (c adopt.Chain, err error) {
	c = adopt.Chain{ID: cfg.ID, MaxGasPrice: cfg.MaxGasPrice}
	if c.Treasury, err = cfg.TreasuryAddress(); err != nil {
		return c, err
	}
	if usdc, ok := cfg.Asset(chain.USDC); ok {
		c.USDC = usdc.Contract
	}
	if asset, ok := cfg.Asset(cfg.ID.PaysOut()); ok && cfg.Payouts {
		c.Asset = asset
	}
	if cfg.Collateral != nil {
		c.Collateral, err = chain.ParseAddress(cfg.Collateral.Address)
	}
	return c, err
}

// Adoption is what the subcommand adopt does.
type Adoption struct {
	Chain chain.ID
	// Since is from when on the books are read; zero: the last seven days.
	Since time.Time
	// Apply does what the plan says. Reason is why.
	Apply  bool
	Reason string
	Words  adopt.Words
}

// Adopt plans, and makes, an adoption in a process that does not serve.
func Adopt(ctx context.Context, cfg Config, n *node.Node, a Adoption) (adopt.Plan, error) {
	billing, err := n.Peer(node.BillingLedger)
	if err != nil {
		return adopt.Plan{}, err
	}
	hub, err := n.Peer(node.ProviderHub)
	if err != nil {
		return adopt.Plan{}, err
	}
	keys, err := n.Peer(node.ChainSigner)
	if err != nil {
		return adopt.Plan{}, err
	}
	pool, err := database.Pool(ctx, n, node.Settlement, Tables(), 2)
	if err != nil {
		return adopt.Plan{}, err
	}
	reads := &chainWork{chains: map[chain.ID]*evm.Chain{}}
	for _, one := range cfg.Chains {
		if reads.chains[one.ID], err = evm.Dial(one); err != nil {
			return adopt.Plan{}, err
		}
	}
	adopter, err := newAdopter(cfg, store.New(pool), reads, Deps{Accruals: billingv1.NewAccrualServiceClient(billing),
		Posting: billingv1.NewPostingServiceClient(billing), Payees: hubv1.NewPayeeServiceClient(hub),
		Signer: signerv1.NewSignerServiceClient(keys)})
	if err != nil {
		return adopt.Plan{}, err
	}
	if !a.Apply {
		return adopter.Plan(ctx, a.Chain, a.Since, a.Words)
	}
	return adopter.Adopt(ctx, a.Chain, a.Since, a.Words, adopt.By{Actor: "operator", Reason: a.Reason})
}
