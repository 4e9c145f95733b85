package settlement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/slash"
	"svc.internal/services/settlement/internal/store"
)

// positionInterval is the pause between two looks at what stands behind providers.
const positionInterval = 2 * time.Second

// terms are on which collateral is taken. Where dollars move on a chain, payments in which none moved do not count.
func (c Config) terms() (position.Terms, error) {
	t := position.Terms{Card: position.CardRules{Available: c.Collateral.Card,
		Minimum: money.NanoUSD(c.Collateral.CardMinimumCents) * slash.Cent}}
	var faults []error
	for _, one := range c.Chains {
		t.Card.LiveOnly = t.Card.LiveOnly || one.ID.Real() && one.Payouts && !c.Development
		if one.Collateral == nil {
			continue
		}
		address, err := one.CollateralAddress()
		faults = append(faults, err)
		asset, ok := one.Asset(one.Collateral.Kind)
		if !ok {
			faults = append(faults, fmt.Errorf("chain %s has no %s", one.ID, one.Collateral.Kind))
		}
		t.Chains = append(t.Chains, position.Rules{Chain: one.ID, Name: one.Name, Contract: address, Asset: asset,
			Minimum: one.Collateral.Minimum, Dust: one.Collateral.Dust, PublicRPC: one.PublicRPC, Explorer: one.Explorer,
			Faucet: one.Faucet})
	}
	return t, errors.Join(faults...)
}

// positionWork follows what stands behind providers, carries penalties out, and pays refunds.
type positionWork struct {
	store    store.Positions
	parts    store.Parts
	refunds  store.Refunds
	books    peers.CollateralBooks
	follower *position.Follower
	slashes  *slash.Runner
	payer    *refund.Runner
	log      *slog.Logger
	metrics  *collateralMetrics
}

// collateralParts are what a positionWork is made of beside the service's own.
type collateralParts struct {
	// block reads a final block.
	block func(ctx context.Context, on chain.ID, number uint64) (chain.Block, error)
	// pipeline sends calls; nil where there is no chain-signer.
	pipeline store.Preparer
	quotes   slash.Quotes
	keeper   *penalty.Keeper
}

func newPositionWork(cfg Config, st *store.Store, deps Deps, p collateralParts) (*positionWork, error) {
	terms, err := cfg.terms()
	if err != nil {
		return nil, err
	}
	made, err := newCollateralMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	positions := store.Positions{Store: st, Terms: terms}
	books := peers.CollateralBooks{Posting: deps.Posting, Accruals: deps.Accruals, Cards: deps.Cards, Terms: terms}
	w := &positionWork{store: positions, parts: store.Parts{Positions: positions},
		refunds: store.Refunds{Positions: positions}, books: books, log: deps.Log, metrics: made}
	var calls chain.Sender = noSigner{}
	if p.pipeline != nil {
		calls = store.ContractCalls{Positions: positions, Pipeline: p.pipeline}
	}
	w.follower = &position.Follower{Terms: terms, Store: positions, Ledger: books,
		Events: store.ChainEvents{Positions: positions, BlockAt: p.block}}
	w.slashes = &slash.Runner{Store: w.parts, Calls: calls, Ledger: books, Quotes: p.quotes,
		Appeals: chainAppeals{p.keeper}}
	w.payer = &refund.Runner{Store: w.refunds, Calls: calls, Ledger: books, Cards: books}
	return w, nil
}

// coinQuotes has the prices of what contracts hold. A dollar needs none.
type coinQuotes struct {
	terms position.Terms
	coins slash.Quotes
}

// Quote implements slash.Quotes.
func (q coinQuotes) Quote(ctx context.Context, on chain.ID) (chain.Quote, error) {
	if r, ok := q.terms.Of(on); ok && r.Asset.Kind == chain.USDC {
		return chain.Quote{}, nil
	}
	return q.coins.Quote(ctx, on)
}

// noSigner stands for the chain-signer where there is none.
type noSigner struct{}

// Send fails.
func (noSigner) Send(context.Context, chain.Sending) (chain.SendOutcome, error) {
	return chain.SendWaiting, errors.New("nothing is sent without a chain-signer")
}

// chainAppeals passes appeals on chains on to penalties.
type chainAppeals struct{ keeper *penalty.Keeper }

// AppealOnChain implements slash.Appeals.
func (a chainAppeals) AppealOnChain(ctx context.Context, id penalty.ID, by chain.Address, on chain.ID) error {
	_, err := a.keeper.AppealOnChain(ctx, id, fmt.Sprintf("The depositor %s appealed on chain %s.", by, on))
	return err
}

// run looks at every interval until ctx ends. What chains and the ledger have is not in settlement's tables, so nobody
// knows when there is something new.
func (w *positionWork) run(ctx context.Context) {
	others, own := w.store.Still(pg.Rest), w.store.Due(store.DueParts)
	for range clock.Every(ctx, positionInterval) {
		if !others.Holds(ctx) {
			_ = others.Learn(w.followAll(ctx)) // it is logged
			w.store.Wrote()
		}
		if !own.Holds(ctx) {
			_ = own.Learn(w.move(ctx)) // it is logged
		}
	}
}

// followAll follows what stands behind providers.
func (w *positionWork) followAll(ctx context.Context) error {
	var faults []error
	for _, r := range w.store.Terms.Chains {
		faults = append(faults, w.follow(ctx, r.Chain))
	}
	if w.books.Cards != nil {
		faults = append(faults, w.warn(ctx, "collateral by card could not be read",
			position.FollowCards(ctx, w.store.Terms.Card, w.books, w.store)))
	}
	return errors.Join(faults...)
}

// move moves the parts of penalties and refunds that are due.
func (w *positionWork) move(ctx context.Context) error {
	_, err := w.slashes.Pass(ctx)
	err = w.warn(ctx, "parts of penalties could not be moved", err)
	if w.books.Cards != nil {
		_, failed := w.payer.Pass(ctx)
		err = errors.Join(err, w.warn(ctx, "refunds could not be moved", failed))
	}
	if backlog, err := w.store.Backlog(ctx); err == nil {
		w.metrics.measured(ctx, backlog)
	}
	return err
}

// follow follows the positions of a chain.
func (w *positionWork) follow(ctx context.Context, on chain.ID) error {
	applied, err := w.follower.Follow(ctx, on)
	_ = w.warn(ctx, "positions could not follow their chain", err)
	w.metrics.followed(ctx, on, applied, err != nil)
	for _, e := range applied.Foreign {
		w.log.ErrorContext(ctx, "a penalty on a chain is none of ours: who has the slasher's key?", "chain", on.String(),
			"transaction", e.Tx.String(), "penalty", fmt.Sprintf("%x", e.Penalty))
	}
	for _, r := range applied.Restated {
		w.log.ErrorContext(ctx, "a position was made anew, because its chain had other events", "chain", on.String(),
			"cause", string(r.Cause), "subject", fmt.Sprintf("%x", r.Is.Subject), "depositor", r.Is.Depositor.String(),
			"free_was", r.Was.Free.String(), "free_is", r.Is.Free.String(), "escrow_was", r.Was.Escrow.String(),
			"escrow_is", r.Is.Escrow.String())
	}
	return errors.Join(err, w.warn(ctx, "the books were not told of what contracts hold", w.follower.Post(ctx, on)))
}

// warn logs an error, and returns it.
func (w *positionWork) warn(ctx context.Context, what string, err error) error {
	if err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, what, "error", err)
	}
	return err
}

// Ask asks for the refund of a provider's collateral.
func (w *positionWork) Ask(ctx context.Context, provider ids.ProviderID) (refund.Refund, error) {
	id, err := ids.NewRequest(clock.System.Now(), rand.Reader)
	if err != nil {
		return refund.Refund{}, fmt.Errorf("make the id of a refund: %w", err)
	}
	return w.refunds.Ask(ctx, refund.ID(id), provider)
}
