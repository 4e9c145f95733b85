package settlement

import (
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
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
