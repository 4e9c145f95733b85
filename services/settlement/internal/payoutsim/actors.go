package payoutsim

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/payoutsim/memory"
	"svc.internal/services/settlement/internal/sending"
)

// process is the real code in one process.
type process struct {
	keeper   *payout.Keeper
	pipeline *sending.Pipeline
	books    books
}

// begin makes what a process has after its start.
func (w *world) begin(a *runner) process {
	n, b, h := node{w, a}, books{w, a}, hub{w, a}
	pipeline := sending.New(calls{w.db, a, w}, signer{w, a}, sending.Chain{ID: chain.Base, Node: n,
		MaxGasPrice: chain.NewAmount(1 << 40)})
	keeper := payout.NewKeeper(payout.Config{
		Assets: map[chain.ID]chain.Asset{chain.Base: {Chain: chain.Base, Kind: chain.USDC, Contract: usdc, Decimals: 6}},
		Alone:  1_000 * money.USD, AloneDaily: 5_000 * money.USD,
	}, payout.Deps{
		Store: rows{memory.Payouts{DB: w.db}, w, a}, Ledger: b, Payees: h, Screener: h, Quotes: b, Wallet: n,
		Sender: pipeline, Clock: w, Random: w,
	})
	return process{keeper, pipeline, b}
}

// worker moves payouts and calls on.
func (w *world) worker(a *runner) {
	p := w.begin(a)
	ctx := context.Background()
	for {
		// What fails is tried again with the next look.
		_, _, _ = p.pipeline.Check(ctx, chain.Base, sending.Payout)
		_ = p.keeper.AdvanceOpen(ctx, 100)
		_, _ = p.pipeline.Pass(ctx, chain.Base)
		_ = p.pipeline.Recheck(ctx, chain.Base)
		_ = p.pipeline.PostGas(ctx, p.books, p.books)
		_ = p.keeper.FinishConversions(ctx, 100)
		a.sleep(time.Duration(30+w.rng.IntN(150)) * time.Second)
	}
}

// owner asks for payouts, and cancels some. It repeats what it got no answer to.
func (w *world) owner(a *runner, id ids.ProviderID) {
	p := w.begin(a)
	ctx := context.Background()
	for n := 0; w.faulty; n++ {
		a.sleep(time.Duration(w.rng.IntN(25)) * time.Minute)
		gross := money.NanoUSD([]int64{10, 250, 800, 1_500, 12_000}[w.rng.IntN(5)]) * money.USD
		op := payout.Operation{ProviderID: id, Key: fmt.Sprintf("%d-%d", n, w.now.Unix()), Digest: [32]byte{byte(n)},
			Actor: "user:1"}
		var asked payout.Payout
		for range 3 {
			got, err := p.keeper.Request(ctx, op, gross, 0)
			if asked = got; err == nil {
				break
			}
		}
		if !asked.ID.IsZero() && w.rng.IntN(4) == 0 {
			a.sleep(time.Duration(w.rng.IntN(5)) * time.Minute)
			_, _ = p.keeper.CancelOwn(ctx, asked.ID, id, op.Actor)
		}
		if w.rng.IntN(3) == 0 {
			op.Key += "c"
			_, _ = p.keeper.Convert(ctx, op, money.NanoUSD(1+w.rng.IntN(100))*money.USD)
		}
	}
	for {
		a.sleep(time.Hour)
	}
}

// operator approves large payouts, under two names, and cancels some on chain.
func (w *world) operator(a *runner) {
	p := w.begin(a)
	names := []string{"ann@1", "bob@2"}
	patience := 30
	if w.deep {
		patience = 4 // a cancel beside a payout is what a deep reorganization may have mined instead
	}
	for {
		a.sleep(time.Duration(1+w.rng.IntN(8)) * time.Minute)
		if w.deep && w.plant == Nothing {
			w.db.Lift(chain.Base) // the operator has looked at what was reorganized
		}
		list, _, err := (memory.Payouts{DB: w.db}).InState(context.Background(), "", 0, 50)
		if err != nil {
			continue
		}
		for _, one := range list {
			switch {
			case one.State == payout.Requested:
				for _, name := range names {
					_, _ = p.keeper.Approve(actor.WithOperator(context.Background(), name), one.ID, "it is due")
				}
			case one.State == payout.Submitted && w.faulty && w.rng.IntN(patience) == 0:
				_, _ = p.keeper.CancelOnChain(actor.WithOperator(context.Background(), names[0]), one.ID, "it hangs")
			case one.State == payout.Approved && w.faulty && w.rng.IntN(30) == 0:
				_, _ = p.keeper.CancelAny(actor.WithOperator(context.Background(), names[0]), one.ID, "it hangs")
			}
		}
	}
}
