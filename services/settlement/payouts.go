package settlement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

const (
	// payoutInterval is the pause between two looks at payouts and transactions.
	payoutInterval = 5 * time.Second
	// maxPayouts bounds the payouts, and the conversions, of one look.
	maxPayouts = 200
)

// payoutWork moves payouts on, and every transaction that settlement sends.
type payoutWork struct {
	keeper   *payout.Keeper
	pipeline *sending.Pipeline
	store    store.Sending
	books    peers.PayoutBooks
	quotes   sending.Quotes
	wallet   hotWallet
	// rechecks is the pause between two looks at what ended.
	rechecks time.Duration
	// signs reports whether there is a chain-signer.
	signs   bool
	log     *slog.Logger
	metrics *payoutMetrics
	// still is nil where transactions of chains are looked at.
	still *clock.Still
}

func newPayoutWork(
	cfg Config, st *store.Store, reads *chainWork, deps Deps,
) (*payoutWork, error) {
	made, err := newPayoutMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	w := &payoutWork{store: store.Sending{Store: st}, quotes: reads.quotes, log: deps.Log, metrics: made,
		rechecks: cfg.Payouts.RecheckInterval,
		books:    peers.PayoutBooks{Posting: deps.Posting, Accruals: deps.Accruals},
		wallet:   hotWallet{chains: reads.chains, assets: map[chain.ID]chain.Asset{}}}
	var nodes []sending.Chain
	for _, one := range cfg.Chains {
		nodes = append(nodes, sending.Chain{ID: one.ID, Node: reads.chains[one.ID], MaxGasPrice: one.MaxGasPrice})
		if asset, ok := one.Asset(one.ID.PaysOut()); ok && one.Payouts {
			w.wallet.assets[one.ID] = asset
		}
	}
	var signer sending.Signer = peers.NoSigner{}
	if deps.Signer != nil {
		signer, w.signs = peers.ChainSigner{Client: deps.Signer}, true
	}
	w.pipeline = sending.New(w.store, signer, nodes...)
	if len(nodes) == 0 {
		w.still = st.Due(store.DuePayouts)
	}
	w.keeper = payout.NewKeeper(payout.Config{Assets: w.wallet.assets, Own: own(cfg.Chains),
		Alone:      money.NanoUSD(cfg.Payouts.AloneUSD) * money.USD,
		AloneDaily: money.NanoUSD(cfg.Payouts.AloneDailyUSD) * money.USD,
	}, payout.Deps{
		Store: store.Payouts{Store: st}, Ledger: w.books, Payees: peers.Payees{Client: deps.Payees},
		Screener: peers.Screener{Screener: reads.screener}, Quotes: reads.quotes, Wallet: w.wallet, Sender: w.pipeline,
		Clock: deps.Clock, Random: rand.Reader, Kept: w.kept,
	})
	return w, nil
}

// own returns the contract of collateral and the treasury of each chain.
func own(chains chain.Configs) map[chain.ID][]chain.Address {
	all := map[chain.ID][]chain.Address{}
	for _, one := range chains {
		for _, of := range []func() (chain.Address, error){one.CollateralAddress, one.TreasuryAddress} {
			if address, err := of(); err == nil && !address.IsZero() { // Validate has read both
				all[one.ID] = append(all[one.ID], address)
			}
		}
	}
	return all
}

// preparer is the pipeline for other domains; nil where nothing can be signed.
func (w *payoutWork) preparer() store.Preparer {
	if !w.signs {
		return nil
	}
	return w.pipeline
}

// kept logs why a payout stays where it is. What lasts is seen by a gauge too.
func (w *payoutWork) kept(ctx context.Context, p payout.Payout, err error) {
	w.log.WarnContext(ctx, "a payout waits", "payout_id", p.ID.String(), "state", string(p.State), "error", err)
}

// run looks at every interval until ctx ends.
func (w *payoutWork) run(ctx context.Context) {
	last := time.Time{}
	for now := range clock.Every(ctx, payoutInterval) {
		rechecks := now.Sub(last) >= w.rechecks
		if !rechecks && w.still.Holds(ctx) {
			continue
		}
		w.pass(ctx)
		if rechecks {
			w.recheck(ctx)
			last = now
		}
		w.measure(ctx)
	}
}

// pass moves payouts on, then transactions, and then the payouts whose transactions have ended.
func (w *payoutWork) pass(ctx context.Context) {
	w.warn(ctx, "payouts could not be moved on", w.keeper.AdvanceOpen(ctx, maxPayouts))
	for _, id := range w.pipeline.Chains() {
		stuck, err := w.pipeline.Pass(ctx, id)
		w.warn(ctx, "transactions of chain "+id.String()+" could not be moved on", err)
		w.metrics.stuckCalls(ctx, id, stuck)
	}
	w.warn(ctx, "payouts could not be moved on", w.keeper.AdvanceOpen(ctx, maxPayouts))
}

// recheck compares nonces and ended transactions with the chains, and tells the books of costs and conversions. It runs
// at the start too, because a database may have lost commits.
func (w *payoutWork) recheck(ctx context.Context) {
	for _, id := range w.pipeline.Chains() {
		if _, pays := w.wallet.assets[id]; pays {
			if _, _, err := w.pipeline.Check(ctx, id, sending.Payout); err != nil && !errors.Is(err, sending.ErrHalted) {
				w.warn(ctx, "the nonces of chain "+id.String()+" could not be compared", err)
			}
		}
		w.warn(ctx, "ended transactions of chain "+id.String()+" could not be looked at", w.pipeline.Recheck(ctx, id))
	}
	w.warn(ctx, "the costs of transactions could not be posted", w.pipeline.PostGas(ctx, w.quotes, w.books))
	w.warn(ctx, "conversions could not be ended", w.keeper.FinishConversions(ctx, maxPayouts))
	w.wallet.measure(ctx, w.pipeline, w.metrics)
}

// measure measures what is open.
func (w *payoutWork) measure(ctx context.Context) {
	backlog, err := w.keeper.Backlog(ctx)
	if err != nil {
		return // the next look measures
	}
	w.metrics.backlog(ctx, backlog)
	if halts, err := w.store.Halts(ctx); err == nil {
		w.metrics.halts(ctx, halts)
	}
}

func (w *payoutWork) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, what, "error", err)
	}
}

// hotWallet reads what the hot wallets hold; it implements payout.Wallet.
type hotWallet struct {
	chains map[chain.ID]*evm.Chain
	assets map[chain.ID]chain.Asset
}

// Holds implements payout.Wallet.
func (h hotWallet) Holds(ctx context.Context, id chain.ID, of chain.Address) (chain.Amount, error) {
	node, asset := h.chains[id], h.assets[id]
	if node == nil {
		return chain.Amount{}, fmt.Errorf("chain %s is not configured", id)
	}
	block, err := node.Final(ctx)
	if err != nil {
		return chain.Amount{}, err
	}
	if asset.Kind == chain.Coin {
		return node.Balance(ctx, of, block)
	}
	return node.TokenBalance(ctx, asset.Contract, of, block)
}

// measure measures what the hot wallets hold, in units of the books.
func (h hotWallet) measure(ctx context.Context, p *sending.Pipeline, m *payoutMetrics) {
	for id, asset := range h.assets {
		sender, _, err := p.Check(ctx, id, sending.Payout)
		if err != nil {
			continue
		}
		holds, err := h.Holds(ctx, id, sender)
		if err != nil {
			continue
		}
		if units, _, ok := holds.Units(asset.Decimals); ok {
			m.holds(ctx, asset, units)
		}
	}
}
