package settlement

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/store"
)

// chainMetrics have the attribute chain.
type chainMetrics struct {
	block, halted metric.Int64Gauge
	stalled       metric.Float64Gauge
	found         metric.Int64Counter
	// prices is 1 where there is a price. open has the attribute waits.
	prices, open, due metric.Int64Gauge
}

func newChainMetrics(meters metric.MeterProvider) (*chainMetrics, error) {
	meter := meters.Meter("svc.internal/services/settlement")
	m := &chainMetrics{}
	var err error
	if m.block, err = meter.Int64Gauge("svc.settlement.chain_block",
		metric.WithDescription("The last final block of a chain whose events are stored.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.halted, err = meter.Int64Gauge("svc.settlement.chain_halted",
		metric.WithDescription("1 where a chain is halted, because a block that was final has another hash.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.stalled, err = meter.Float64Gauge("svc.settlement.chain_stalled", metric.WithUnit("s"),
		metric.WithDescription("How long a chain was not read up to its final block.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.found, err = meter.Int64Counter("svc.settlement.chain_rows_missed",
		metric.WithDescription("What the second reading of a chain found that the first had not.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return m, m.ofDeposits(meter)
}

func (m *chainMetrics) ofDeposits(meter metric.Meter) (err error) {
	if m.prices, err = meter.Int64Gauge("svc.settlement.price_known",
		metric.WithDescription("1 where there is a good price of a chain's coin, else 0.")); err != nil {
		return fmt.Errorf("make metrics: %w", err)
	}
	if m.open, err = meter.Int64Gauge("svc.settlement.deposits_waiting",
		metric.WithDescription("Final transfers that are not decided, by what they wait for.")); err != nil {
		return fmt.Errorf("make metrics: %w", err)
	}
	if m.due, err = meter.Int64Gauge("svc.settlement.deposits_unposted",
		metric.WithDescription("Transfers that are decided and not in the books.")); err != nil {
		return fmt.Errorf("make metrics: %w", err)
	}
	return nil
}

func (m *chainMetrics) priced(ctx context.Context, id chain.ID, known bool) {
	var one int64
	if known {
		one = 1
	}
	m.prices.Record(ctx, one, ofChain(id))
}

func (m *chainMetrics) waiting(ctx context.Context, b deposit.Backlog) {
	for _, reason := range deposit.Reasons() {
		m.open.Record(ctx, int64(b.Waiting[reason]), metric.WithAttributes(attribute.String("waits", string(reason))))
	}
	m.due.Record(ctx, int64(b.Due))
}

func ofChain(id chain.ID) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("chain", id.String()))
}

func (m *chainMetrics) measured(ctx context.Context, s store.ChainState) {
	var halted int64
	if s.Halt != nil {
		halted = 1
	}
	m.block.Record(ctx, int64(s.Block), ofChain(s.Chain))
	m.halted.Record(ctx, halted, ofChain(s.Chain))
	m.stalled.Record(ctx, s.Stalled.Seconds(), ofChain(s.Chain))
}

func (m *chainMetrics) missed(ctx context.Context, id chain.ID, rows int) {
	m.found.Add(ctx, int64(rows), ofChain(id))
}
