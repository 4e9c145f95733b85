package settlement

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/pkg/clock"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/sweep"
)

// sweepInterval is the pause between two looks at sweeps.
const sweepInterval = time.Minute

// sweepWork takes what consumers deposited to the treasuries.
type sweepWork struct {
	// sweeper is nil where nothing can be swept: without a chain that has a treasury, or without a chain-signer.
	sweeper     *sweep.Sweeper
	store       store.Sweeps
	log         *slog.Logger
	open, stuck metric.Int64Gauge
}

func newSweepWork(
	cfg Config, st *store.Store, reads *chainWork, payouts *payoutWork, deps Deps,
) (w *sweepWork, err error) {
	w = &sweepWork{store: store.Sweeps{Store: st}, log: deps.Log}
	meter := deps.Meters.Meter("svc.internal/services/settlement")
	if w.open, err = meter.Int64Gauge("svc.settlement.sweeps_open",
		metric.WithDescription("Sweeps that have not ended, by their state.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if w.stuck, err = meter.Int64Gauge("svc.settlement.sweeps_stuck", metric.WithDescription(
		"Sweeps that were planned six hours ago and have not ended, and those of the last day that moved nothing."),
	); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if deps.Signer != nil && slices.ContainsFunc(cfg.Chains, hasTreasury) {
		w.sweeper = &sweep.Sweeper{Store: w.store, Signer: peers.ChainSigner{Client: deps.Signer},
			Sender: payouts.pipeline, Quotes: reads.quotes, Config: cfg.Chains, Clock: deps.Clock}
	}
	return w, nil
}

// hasTreasury reports whether deposits of a chain are swept.
func hasTreasury(c chain.Config) bool {
	treasury, err := c.TreasuryAddress()
	return err == nil && !treasury.IsZero()
}

// run looks at every interval until ctx ends.
func (w *sweepWork) run(ctx context.Context) {
	if w.sweeper == nil {
		return
	}
	for range clock.Every(ctx, sweepInterval) {
		w.pass(ctx)
	}
}

// pass plans, sends and ends sweeps, and measures those that are open.
func (w *sweepWork) pass(ctx context.Context) {
	if err := w.sweeper.Pass(ctx); err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, "deposits could not be swept", "error", err)
	}
	b, err := w.store.Backlog(ctx)
	if err != nil {
		return // the next pass measures
	}
	for state, n := range map[string]int{"planned": b.Planned, "sent": b.Sent} {
		w.open.Record(ctx, int64(n), metric.WithAttributes(attribute.String("state", state)))
	}
	w.stuck.Record(ctx, int64(b.Stuck))
}
