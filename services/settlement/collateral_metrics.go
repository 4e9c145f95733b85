package settlement

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
)

// collateralMetrics tell what waits and what is wrong with collateral.
type collateralMetrics struct {
	foreign, restated metric.Int64Counter
	// stuck is by chain, and the others are of all.
	stuck, unposted, parts, refunds, bank, takenBack, lapsed, missed, vanished metric.Int64Gauge
}

func newCollateralMetrics(meters metric.MeterProvider) (*collateralMetrics, error) {
	meter := meters.Meter("svc.internal/services/settlement")
	m := &collateralMetrics{}
	var err error
	if m.foreign, err = meter.Int64Counter("svc.settlement.slashes_foreign",
		metric.WithDescription("Penalties on chains that settlement has not proposed so.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.restated, err = meter.Int64Counter("svc.settlement.positions_restated",
		metric.WithDescription("Positions that were made anew of the events that their chain has.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	for _, g := range []struct {
		to         *metric.Int64Gauge
		name, says string
	}{
		{&m.stuck, "positions_stuck", "1 while the positions of a chain cannot follow its events."},
		{&m.unposted, "custody_unposted", "Events of contracts that are not in the books after 15 minutes."},
		{&m.parts, "penalty_parts_stuck", "Parts of penalties whose call was refused several times."},
		{&m.refunds, "refunds_overdue", "Refunds that are being paid for more than a day."},
		{&m.bank, "refunds_by_bank", "Payments by card that an operator must give back from the bank."},
		{&m.takenBack, "refunds_taken_back", "Payments whose refund is in the books and whose card's owner was first."},
		{&m.lapsed, "penalty_parts_lapsed", "Parts of executed penalties that lapsed on their chain."},
		{&m.missed, "penalty_parts_missed", "Parts of penalties, not reversed, that were given up in the last seven days."},
		{&m.vanished, "penalty_parts_vanished", "Parts of penalties whose last event is gone from their chain."},
	} {
		if *g.to, err = meter.Int64Gauge("svc.settlement."+g.name, metric.WithDescription(g.says)); err != nil {
			return nil, fmt.Errorf("make metrics: %w", err)
		}
	}
	return m, nil
}

func (m *collateralMetrics) followed(ctx context.Context, on chain.ID, a position.Applied, failed bool) {
	of := metric.WithAttributes(attribute.String("chain", on.String()))
	m.foreign.Add(ctx, int64(len(a.Foreign)), of)
	m.restated.Add(ctx, int64(len(a.Restated)), of)
	stuck := int64(0)
	if failed {
		stuck = 1
	}
	m.stuck.Record(ctx, stuck, of)
}

func (m *collateralMetrics) measured(ctx context.Context, b position.Backlog) {
	m.unposted.Record(ctx, b.Unposted)
	m.parts.Record(ctx, b.StuckParts)
	m.refunds.Record(ctx, b.OverdueRefunds)
	m.bank.Record(ctx, b.ByBank)
	m.takenBack.Record(ctx, b.TakenBack)
	m.lapsed.Record(ctx, b.Lapsed)
	m.missed.Record(ctx, b.Missed)
	m.vanished.Record(ctx, b.Vanished)
}
