package verifier

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/verifier/internal/effects"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

type metrics struct {
	// probes has the attributes kind, flow, purpose, end and reason; observations family and
	// exceeds; verdicts kind and trigger; held reason; effects kind and end; levels level.
	probes, observations, verdicts, held, effects, absurd, refused metric.Int64Counter

	queued, waiting, pending, stuck, suspected, spent, levels, offers metric.Int64Gauge
	lag, effectsLag                                                   metric.Float64Gauge
}

func newMetrics(meters metric.MeterProvider) (*metrics, error) {
	meter := meters.Meter("svc.internal/services/verifier")
	m := &metrics{}
	counters := []struct {
		into *metric.Int64Counter
		name string
		text string
	}{
		{&m.probes, "svc.verifier.probes", "Probes that ended or were given back, by kind, flow, purpose, end and reason."},
		{&m.observations, "svc.verifier.observations", "Observations, by family and whether they exceed."},
		{&m.verdicts, "svc.verifier.verdicts", "Verdicts, by kind and trigger."},
		{&m.held, "svc.verifier.steps_held", "Steps that the evidence asked for and that were not taken, by reason."},
		{&m.effects, "svc.verifier.effects", "Tries of effects in other services, by kind and end."},
		{&m.absurd, "svc.verifier.absurd_claims", "Claims of usage that cannot be, which are a risk and no evidence."},
		{&m.refused, "svc.verifier.messages_refused", "Messages on NATS, or parts of them, that were out of bounds."},
	}
	for _, c := range counters {
		made, err := meter.Int64Counter(c.name, metric.WithDescription(c.text))
		if err != nil {
			return nil, fmt.Errorf("make metrics: %w", err)
		}
		*c.into = made
	}
	return m, m.gauges(meter)
}

func (m *metrics) gauges(meter metric.Meter) error {
	for _, g := range []struct {
		into *metric.Int64Gauge
		name string
		text string
	}{
		{&m.queued, "svc.verifier.probes_queued", "Probes that have no end yet."},
		{&m.waiting, "svc.verifier.verdicts_waiting", "Verdicts that wait for an operator, at most 200."},
		{&m.pending, "svc.verifier.effects_pending", "Effects of verdicts that are not carried out yet."},
		{&m.stuck, "svc.verifier.effects_refused", "Effects of verdicts that another service refused for good."},
		{&m.suspected, "svc.verifier.common_causes", "Strata in which a common cause is suspected."},
		{&m.spent, "svc.verifier.spent_today_nano_usd", "What the probes of this UTC day are expected to cost."},
		{&m.levels, "svc.verifier.offerings", "Offers, by level."},
		{&m.offers, "svc.verifier.offers_connected", "Offers whose provider is connected."},
	} {
		made, err := meter.Int64Gauge(g.name, metric.WithDescription(g.text))
		if err != nil {
			return fmt.Errorf("make metrics: %w", err)
		}
		*g.into = made
	}
	for _, g := range []struct {
		into *metric.Float64Gauge
		name string
		text string
	}{
		{&m.lag, "svc.verifier.probes_lag", "How long the longest due probe has waited."},
		{&m.effectsLag, "svc.verifier.effects_lag", "The age of the oldest effect that is not carried out."},
	} {
		made, err := meter.Float64Gauge(g.name, metric.WithUnit("s"), metric.WithDescription(g.text))
		if err != nil {
			return fmt.Errorf("make metrics: %w", err)
		}
		*g.into = made
	}
	return nil
}

func with(pairs ...string) metric.MeasurementOption {
	set := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributes(set...)
}

// probed counts how a probe ended.
func (m *metrics) probed(ctx context.Context, p probe.Plan, end, reason string) {
	m.probes.Add(ctx, 1, with("kind", string(p.Kind), "flow", string(p.Flow), "purpose", string(p.Purpose), "end", end,
		"reason", reason))
}

// moved counts what an event brought.
func (m *metrics) moved(ctx context.Context, _ probe.Offer, _ standing.Event, out standing.Outcome) {
	if out.Judgement != nil {
		for _, o := range out.Judgement.Observations {
			m.observations.Add(ctx, 1, with("family", o.Family().String(), "exceeds", fmt.Sprint(o.Exceeded())))
		}
	}
	for _, v := range out.Verdicts {
		m.verdicts.Add(ctx, 1, with("kind", string(v.Kind), "trigger", v.Trigger))
	}
	if out.Held != ladder.NotHeld {
		m.held.Add(ctx, 1, with("reason", string(out.Held)))
	}
}

func (m *metrics) effectEnded(ctx context.Context, k effects.Kind, how string) {
	m.effects.Add(ctx, 1, with("kind", string(k), "end", how))
}

// measure measures what the database has.
func (m *metrics) measure(ctx context.Context, q store.QueueState, o store.OutboxState, levels map[ladder.Level]int) {
	m.queued.Record(ctx, int64(q.Queued+q.Leased))
	m.lag.Record(ctx, q.Lag.Seconds())
	m.pending.Record(ctx, int64(o.Pending))
	m.stuck.Record(ctx, int64(o.Refused))
	m.effectsLag.Record(ctx, o.Lag.Seconds())
	for _, level := range ladder.Levels() {
		m.levels.Record(ctx, int64(levels[level]), with("level", string(level)))
	}
}
