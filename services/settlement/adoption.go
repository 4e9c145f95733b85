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
	"svc.internal/services/settlement/internal/store"
)

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
