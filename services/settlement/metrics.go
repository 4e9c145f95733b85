package settlement

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/settlement/internal/fill"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/reconcile"
)

type metrics struct {
	persistent, unconfirmed metric.Int64Gauge
	// open has the attribute state.
	open, overdue metric.Int64Gauge
	// What was done to lines because of the ledger's word.
	filled, corrected, heldOut metric.Int64Counter
}

func newMetrics(meters metric.MeterProvider) (*metrics, error) {
	meter := meters.Meter("svc.internal/services/settlement")
	m := &metrics{}
	var err error
	if m.persistent, err = meter.Int64Gauge("svc.settlement.differences_persistent",
		metric.WithDescription(
			"Provider days on which earning lines and the ledger's accruals have differed "+
				"in two comparisons in a row.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.unconfirmed, err = meter.Int64Gauge("svc.settlement.lines_unconfirmed",
		metric.WithDescription("Lines of the days compared that rest on the ledger's word alone.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.filled, err = meter.Int64Counter("svc.settlement.lines_filled",
		metric.WithDescription("Lines that this process filled in from the ledger.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.corrected, err = meter.Int64Counter("svc.settlement.lines_corrected",
		metric.WithDescription("Lines that this process overruled, because the ledger settled otherwise.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.heldOut, err = meter.Int64Counter("svc.settlement.lines_excluded",
		metric.WithDescription(
			"Lines that this process held out, because the ledger has settled no such requests.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return m, m.ofPenalties(meter)
}

func (m *metrics) ofPenalties(meter metric.Meter) (err error) {
	if m.open, err = meter.Int64Gauge("svc.settlement.penalties_open",
		metric.WithDescription("Penalties that are not final, by their state.")); err != nil {
		return fmt.Errorf("make metrics: %w", err)
	}
	if m.overdue, err = meter.Int64Gauge("svc.settlement.penalties_overdue",
		metric.WithDescription("Penalties that are due and could not be executed.")); err != nil {
		return fmt.Errorf("make metrics: %w", err)
	}
	return nil
}

// backlog measures what is open after the penalties that were due have been executed.
func (m *metrics) backlog(ctx context.Context, b penalty.Backlog) {
	for _, state := range penalty.States() {
		if !state.Final() {
			m.open.Record(ctx, int64(b.Open[state]), metric.WithAttributes(attribute.String("state", string(state))))
		}
	}
	m.overdue.Record(ctx, int64(b.Overdue))
}

func (m *metrics) compared(ctx context.Context, r reconcile.Report, persistent int) {
	m.persistent.Record(ctx, int64(persistent))
	m.unconfirmed.Record(ctx, r.Filled.Requests)
}

func (m *metrics) mended(ctx context.Context, out fill.Outcome) {
	m.filled.Add(ctx, int64(out.Filled))
	m.corrected.Add(ctx, int64(len(out.Corrected)))
	m.heldOut.Add(ctx, int64(len(out.Excluded)))
}
