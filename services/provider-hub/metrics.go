package providerhub

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/provider-hub/internal/challenge"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/events"
	"svc.internal/services/provider-hub/internal/gate"
	"svc.internal/services/provider-hub/internal/provider"
)

// metrics are the figures of a hub. Attribute sets are made once. None names a request, a
// provider or a model, except for the ratios of claims.
type metrics struct {
	attempts   metric.Int64Counter
	excess     metric.Int64Counter
	publishLag metric.Float64Histogram
	outcomes   map[dispatch.Outcome]metric.MeasurementOption
	warmUps    metric.Int64Counter
	warmed     map[events.WarmOutcome]metric.MeasurementOption
	sweeps     metric.Int64Counter
	statuses   map[provider.Status]metric.MeasurementOption
	challenges metric.Int64Counter
	ends       map[challenge.End]metric.MeasurementOption
	renewals   metric.Int64Counter
}

const meterName = "svc.internal/services/provider-hub"

func newMetrics(meters metric.MeterProvider) (*metrics, error) {
	meter := meters.Meter(meterName)
	m := &metrics{outcomes: map[dispatch.Outcome]metric.MeasurementOption{}}
	for _, o := range dispatch.Outcomes() {
		m.outcomes[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", o.String())))
	}
	m.warmed = map[events.WarmOutcome]metric.MeasurementOption{}
	for _, o := range events.WarmOutcomes() {
		m.warmed[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", string(o))))
	}
	m.statuses = map[provider.Status]metric.MeasurementOption{}
	for _, status := range provider.Statuses() {
		m.statuses[status] = metric.WithAttributeSet(attribute.NewSet(attribute.String("status", string(status))))
	}
	m.ends = map[challenge.End]metric.MeasurementOption{}
	for _, e := range challenge.Ends() {
		m.ends[e] = metric.WithAttributeSet(attribute.NewSet(attribute.String("end", e.String())))
	}
	var err error
	if m.challenges, err = meter.Int64Counter("svc.provider_hub.challenges",
		metric.WithDescription("Challenges of the verifier by how they ended.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.renewals, err = meter.Int64Counter("svc.provider_hub.key_renewals_failed",
		metric.WithDescription("Hashes of provider keys that stayed under an older pepper although their key was "+
			"used.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	m.renewals.Add(context.Background(), 0) // so that the first failure is seen as an increase
	if m.warmUps, err = meter.Int64Counter("svc.provider_hub.warmups",
		metric.WithDescription("Warm-ups of models by what became of them.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.sweeps, err = meter.Int64Counter("svc.provider_hub.providers.swept",
		metric.WithDescription("Providers that time alone moved or judged, by the status they have since.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.attempts, err = meter.Int64Counter("svc.provider_hub.attempts",
		metric.WithDescription("Ended attempts by outcome.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.excess, err = meter.Int64Counter("svc.provider_hub.answers.excess",
		metric.WithDescription("Answers that were longer than they may be, and were cut or refused.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.publishLag, err = meter.Float64Histogram("svc.provider_hub.publish.lag", metric.WithUnit("s"),
		metric.WithDescription("From usage being on disk to its first publication."),
		metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 30)); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) attempt(o dispatch.Outcome) {
	if set := m.outcomes[o]; set != nil {
		m.attempts.Add(context.Background(), 1, set)
	}
}

func (m *metrics) warmUp(o events.WarmOutcome) {
	if set := m.warmed[o]; set != nil {
		m.warmUps.Add(context.Background(), 1, set)
	}
}

func (m *metrics) challenged(e challenge.End) {
	if set := m.ends[e]; set != nil {
		m.challenges.Add(context.Background(), 1, set)
	}
}

func (m *metrics) swept(status provider.Status) {
	if set := m.statuses[status]; set != nil {
		m.sweeps.Add(context.Background(), 1, set)
	}
}

func (m *metrics) lag(d time.Duration) { m.publishLag.Record(context.Background(), d.Seconds()) }

// observe registers the figures that are read on demand.
func (m *metrics) observe(meters metric.MeterProvider, s *Service, counts *gate.Counts) error {
	meter := meters.Meter(meterName)
	type reading struct {
		name, description string
		read              func() int64
	}
	for _, r := range []reading{
		{"sockets", "Open sockets of agents.", counts.Sockets.Load},
		{"sessions", "Registered sessions.", func() int64 { return int64(s.registry.Len()) }},
		{"slots", "Requests under way.", counts.Sessions.Slots.Load},
		{"unsettled", "Usage that billing-ledger has not settled.", func() int64 { return int64(s.usage.Unsettled()) }},
		{"held", "Bytes of answers that nobody has taken yet.", counts.Sessions.Held.Load},
		{"voids", "Void attempts that wait for NATS.", func() int64 { return int64(s.usage.Voids()) }},
		{"presence.waiting", "Connections that wait to be recorded.", func() int64 { return int64(s.recorder.Pending()) }},
		{"journal.bytes", "Size of the journal.", s.journalBytes},
		{"external.endpoints", "External endpoints that the hub holds.", s.endpoints.Counts.Held.Load},
		{"external.sessions", "External endpoints with a session.", s.endpoints.Counts.Served.Load},
		{"journal.no_space", "1 while requests are refused because the journal's disk is nearly full.", s.journalNoSpace},
	} {
		if _, err := meter.Int64ObservableGauge("svc.provider_hub."+r.name,
			metric.WithDescription(r.description), observed(r.read)); err != nil {
			return fmt.Errorf("make metric %s: %w", r.name, err)
		}
	}
	if _, err := meter.Float64ObservableGauge("svc.provider_hub.journal.used",
		metric.WithDescription(
			"Part of the journal's bounds in use, bytes or attempts, whichever is more; the hub is not ready from 0.5 on."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			if j := s.usage.Journal(); j != nil {
				o.Observe(j.Usage().Fraction())
			}
			return nil
		})); err != nil {
		return fmt.Errorf("make metric journal.used: %w", err)
	}
	for _, r := range []reading{
		{"frames.received", "Frames from agents.", counts.Conns.FramesIn.Load},
		{"frames.sent", "Frames to agents.", counts.Sessions.FramesOut.Load},
		{"data.received", "Bytes of answers from agents.", counts.Sessions.BytesIn.Load},
		{"strays", "Answers of agents of v1 to requests of an earlier connection.", counts.Sessions.Strays.Load},
		{"attempts.dropped", "Reports of attempts that found no room.", s.attempts.Dropped},
		{"presence.forgotten", "Connections that found no room to be recorded.", s.recorder.Forgotten},
		{"answers.renamed", "Answers in which the engine called the model otherwise than it was asked for.",
			s.naming.Answers},
		{"answers.forgotten", "Of those, answers that found no room to be recorded.", s.naming.Forgotten},
		{"receipts.forwarded", "Receipts of providers that billing-ledger was asked about.", s.workReceipts.Forwarded},
		{"receipts.refused", "Receipts of providers that count for nothing.", s.workReceipts.Refused},
		{"receipts.dropped", "Receipts of providers that came too fast.",
			func() int64 { return counts.Sessions.ReceiptsDropped.Load() + s.workReceipts.Dropped() }},
		{"external.probes_failed", "Probes of external endpoints that failed.", s.endpoints.Counts.ProbesFailed.Load},
		{"external.leases_lost", "External endpoints that the hub left because it could not renew their leases.",
			s.endpoints.Counts.LeasesLost.Load},
		{"voids.lost", "Void attempts that found no room or waited for too long.", s.usage.VoidsLost},
	} {
		if _, err := meter.Int64ObservableCounter("svc.provider_hub."+r.name,
			metric.WithDescription(r.description), observed(r.read)); err != nil {
			return fmt.Errorf("make metric %s: %w", r.name, err)
		}
	}
	return nil
}

func observed(read func() int64) metric.Int64ObservableOption {
	return metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(read())
		return nil
	})
}

func (s *Service) journalNoSpace() int64 {
	if j := s.usage.Journal(); j != nil && j.Usage().NoSpace {
		return 1
	}
	return 0
}

func (s *Service) journalBytes() int64 {
	j := s.usage.Journal()
	if j == nil {
		return 0
	}
	return j.Usage().Bytes
}

func (m *metrics) renewFailed() { m.renewals.Add(context.Background(), 1) }
