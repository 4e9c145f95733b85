package settlement

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/settlement/internal/batch"
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
	// What batches wait for. waiting has the attribute because.
	waiting, behind, blocked, unposted, unsigned, months metric.Int64Gauge
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
	if err := m.ofPenalties(meter); err != nil {
		return nil, err
	}
	return m, m.ofBatches(meter)
}

func (m *metrics) ofBatches(meter metric.Meter) (err error) {
	for _, g := range []struct {
		gauge      *metric.Int64Gauge
		name, text string
	}{
		{&m.waiting, "batch_day_waiting", "Whether a sealed day waits to be batched, by the reason."},
		{&m.behind, "batch_days_behind", "Days up to yesterday that are not batched."},
		{&m.blocked, "batch_providers_blocked",
			"Providers of whom nothing is batched, because a witness contradicts their lines."},
		{&m.unposted, "batch_shares_unposted", "Shares that have not been posted for an hour."},
		{&m.unsigned, "batch_statements_unsigned", "Statements that have not been signed for an hour."},
		{&m.months, "plan_months_waiting", "Months of plans that are due and could not be closed."},
	} {
		if *g.gauge, err = meter.Int64Gauge("svc.settlement."+g.name, metric.WithDescription(g.text)); err != nil {
			return fmt.Errorf("make metrics: %w", err)
		}
	}
	return nil
}

// batched measures what is left after a pass.
func (m *metrics) batched(ctx context.Context, b batch.Backlog, outcome batch.Outcome, months int) {
	for _, why := range []batch.Outcome{batch.TooManyFilled, batch.LinesMissing} {
		var waits int64
		if outcome == why {
			waits = 1
		}
		m.waiting.Record(ctx, waits, metric.WithAttributes(attribute.String("because", string(why))))
	}
	m.behind.Record(ctx, max(b.Behind, 0))
	m.blocked.Record(ctx, b.Blocked)
	m.unposted.Record(ctx, b.Unposted)
	m.unsigned.Record(ctx, b.Unsigned)
	m.months.Record(ctx, int64(months))
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
