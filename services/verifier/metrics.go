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
	instruments := &maker{meter: meters.Meter("svc.internal/services/verifier")}
	m := &metrics{
		probes: instruments.Int64Counter("svc.verifier.probes",
			"Probes that ended or were given back, by kind, flow, purpose, end and reason."),
		observations: instruments.Int64Counter("svc.verifier.observations",
			"Observations, by family and whether they exceed."),
		verdicts: instruments.Int64Counter("svc.verifier.verdicts", "Verdicts, by kind and trigger."),
		held: instruments.Int64Counter("svc.verifier.steps_held",
			"Steps that the evidence asked for and that were not taken, by reason."),
		effects: instruments.Int64Counter("svc.verifier.effects", "Tries of effects in other services, by kind and end."),
		absurd: instruments.Int64Counter("svc.verifier.absurd_claims",
			"Claims of usage that cannot be, which are a risk and no evidence."),
		refused: instruments.Int64Counter("svc.verifier.messages_refused",
			"Messages on NATS, or parts of them, that were out of bounds."),

		queued: instruments.Int64Gauge("svc.verifier.probes_queued", "Probes that have no end yet."),
		waiting: instruments.Int64Gauge("svc.verifier.verdicts_waiting",
			"Verdicts that wait for an operator, at most 200."),
		pending: instruments.Int64Gauge("svc.verifier.effects_pending",
			"Effects of verdicts that are not carried out yet."),
		stuck: instruments.Int64Gauge("svc.verifier.effects_refused",
			"Effects of verdicts that another service refused for good."),
		suspected: instruments.Int64Gauge("svc.verifier.common_causes", "Strata in which a common cause is suspected."),
		spent: instruments.Int64Gauge("svc.verifier.spent_today_nano_usd",
			"What the probes of this UTC day are expected to cost."),
		levels: instruments.Int64Gauge("svc.verifier.offerings", "Offers, by level."),
		offers: instruments.Int64Gauge("svc.verifier.offers_connected", "Offers whose provider is connected."),
		lag: instruments.Float64Gauge("svc.verifier.probes_lag", "How long the longest due probe has waited.",
			metric.WithUnit("s")),
		effectsLag: instruments.Float64Gauge("svc.verifier.effects_lag",
			"The age of the oldest effect that is not carried out.", metric.WithUnit("s")),
	}
	return m, instruments.err
}

// maker makes instruments and keeps the first error.
type maker struct {
	meter metric.Meter
	err   error
}

func (k *maker) keep(err error) {
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("make metrics: %w", err)
	}
}

// Int64Counter makes a counter.
func (k *maker) Int64Counter(name, text string) metric.Int64Counter {
	made, err := k.meter.Int64Counter(name, metric.WithDescription(text))
	k.keep(err)
	return made
}

// Int64Gauge makes a gauge.
func (k *maker) Int64Gauge(name, text string) metric.Int64Gauge {
	made, err := k.meter.Int64Gauge(name, metric.WithDescription(text))
	k.keep(err)
	return made
}

// Float64Gauge makes a gauge with a unit.
func (k *maker) Float64Gauge(name, text string, unit metric.Float64GaugeOption) metric.Float64Gauge {
	made, err := k.meter.Float64Gauge(name, metric.WithDescription(text), unit)
	k.keep(err)
	return made
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
