package billingledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/idempotency"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// metrics are the service's instruments, with their attributes made beforehand.
type metrics struct {
	admissions metric.Int64Counter
	released   metric.Int64Counter
	expired    metric.Int64Counter
	usage      metric.Int64Counter
	earnings   metric.Int64Counter
	answers    metric.Int64Counter
	alarms     metric.Int64Counter
	charged    metric.Int64Counter
	payouts    metric.Int64Counter
	shortfalls metric.Int64Counter
	renewals   metric.Int64Counter

	// Gauges, which are read when metrics are collected.
	waiting      metric.Int64ObservableGauge
	openHolds    metric.Int64ObservableGauge
	held         metric.Int64ObservableGauge
	oldestHold   metric.Float64ObservableGauge
	reviews      metric.Int64ObservableGauge
	usageWaiting metric.Int64ObservableGauge
	usageLag     metric.Float64ObservableGauge
	keptBytes    metric.Int64ObservableGauge
	standby      metric.Int64ObservableGauge
	overdue      metric.Int64ObservableGauge
	openAlarms   metric.Int64ObservableGauge
	cardLag      metric.Float64ObservableGauge

	byOutcome map[hold.Outcome]metric.AddOption
	byResult  map[usage.Result]metric.AddOption
	byRule    map[usage.Rule]metric.AddOption
	byAnswer  map[idempotency.Outcome]metric.AddOption
	bySource  map[usage.Source]metric.AddOption
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	m := &metrics{byOutcome: map[hold.Outcome]metric.AddOption{}, byResult: map[usage.Result]metric.AddOption{},
		byRule: map[usage.Rule]metric.AddOption{}, byAnswer: map[idempotency.Outcome]metric.AddOption{},
		bySource: map[usage.Source]metric.AddOption{}}
	for _, src := range usage.Sources() {
		m.bySource[src] = metric.WithAttributeSet(attribute.NewSet(attribute.String("source", string(src))))
	}
	for _, o := range hold.Outcomes() {
		m.byOutcome[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", string(o))))
	}
	for _, r := range usage.Results() {
		m.byResult[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", string(r))))
	}
	for _, r := range usage.Rules() {
		m.byRule[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("rule", string(r))))
	}
	for _, o := range idempotency.Outcomes() {
		m.byAnswer[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", string(o))))
	}
	var errs [22]error
	m.admissions, errs[0] = meter.Int64Counter("svc.billing.admissions",
		metric.WithDescription("Decided admissions by outcome."))
	m.released, errs[1] = meter.Int64Counter("svc.billing.holds_released",
		metric.WithDescription("Holds released because nothing was served."))
	m.expired, errs[2] = meter.Int64Counter("svc.billing.holds_expired",
		metric.WithDescription("Holds that nobody closed in time."))
	m.usage, errs[3] = meter.Int64Counter("svc.billing.usage_events",
		metric.WithDescription("Usage events by what became of them."))
	m.waiting, errs[4] = meter.Int64ObservableGauge("svc.billing.admissions_waiting",
		metric.WithDescription("Requests that wait for a batch."))
	m.openHolds, errs[5] = meter.Int64ObservableGauge("svc.billing.holds_open",
		metric.WithDescription("Open holds, in the database that all replicas share."))
	m.held, errs[6] = meter.Int64ObservableGauge("svc.billing.held_nano_usd",
		metric.WithDescription("What open holds set aside, in nano-USD, in the database that all replicas share."))
	m.oldestHold, errs[7] = meter.Float64ObservableGauge("svc.billing.oldest_hold", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest open hold; 0 without one."))
	m.reviews, errs[8] = meter.Int64ObservableGauge("svc.billing.orphan_reviews",
		metric.WithDescription("Requests published from the gateway's count that wait to be settled."))
	m.usageWaiting, errs[9] = meter.Int64ObservableGauge("svc.billing.usage_waiting",
		metric.WithDescription("Messages of usage in the stream behind the last batch; a message may have many events."))
	m.usageLag, errs[10] = meter.Float64ObservableGauge("svc.billing.usage_lag", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest usage that may not be settled; 0 when none waits."))
	m.earnings, errs[11] = meter.Int64Counter("svc.billing.earnings_held",
		metric.WithDescription("Requests whose provider's earnings are held, by the rule that ties it to the consumer."))
	m.answers, errs[12] = meter.Int64Counter("svc.billing.keyed_answers",
		metric.WithDescription("Answers to requests with an Idempotency-Key by whether they are kept, and why not."))
	m.keptBytes, errs[13] = meter.Int64ObservableGauge("svc.billing.kept_bytes", metric.WithUnit("By"),
		metric.WithDescription("Kept answers, in the database that all replicas share."))
	m.standby, errs[14] = meter.Int64ObservableGauge("svc.billing.synchronous_standby",
		metric.WithDescription("1 when PostgreSQL waits for a standby before it answers a commit, else 0."))
	m.overdue, errs[15] = meter.Int64ObservableGauge("svc.billing.days_overdue",
		metric.WithDescription("Days that are not cleared although their retention is over."))
	m.alarms, errs[16] = meter.Int64Counter("svc.billing.card_alarms",
		metric.WithDescription("Card payments that need a person, by reason."))
	m.openAlarms, errs[17] = meter.Int64ObservableGauge("svc.billing.card_alarms_open",
		metric.WithDescription("Card payments that need a person, in the database that all replicas share."))
	m.cardLag, errs[18] = meter.Float64ObservableGauge("svc.billing.card_lag", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest event of the card processor that is not handled, or refund that has not "+
			"ended; 0 without one."))
	m.charged, errs[19] = meter.Int64Counter("svc.billing.charged_nano_usd",
		metric.WithDescription("What consumers were charged, in nano-USD, by who pays. The books count, not this."))
	m.payouts, errs[20] = meter.Int64Counter("svc.billing.payouts_nano_usd",
		metric.WithDescription("What providers earned, in nano-USD, by who pays. Under plan it counts nothing, because the "+
			"month's pool pays. The books count, not this."))
	m.shortfalls, errs[21] = meter.Int64Counter("svc.billing.shortfalls_nano_usd",
		metric.WithDescription("What could not be charged, in nano-USD, by who pays. The books count, not this."))
	return m, errors.Join(append(errs[:], m.countRenewals(meter))...)
}

func (m *metrics) countRenewals(meter metric.Meter) (err error) {
	if m.renewals, err = meter.Int64Counter("svc.billing.key_renewals_failed", metric.WithDescription(
		"Hashes of API keys that stayed under an older pepper although their key was used.")); err != nil {
		return err
	}
	m.renewals.Add(context.Background(), 0) // so that the first failure is seen as an increase
	return nil
}

// booked counts the amounts of a settled line.
func (m *metrics) booked(l usage.Line) {
	ctx, by := context.Background(), m.bySource[l.Source]
	m.charged.Add(ctx, int64(l.Charged), by)
	if l.Source != usage.Plan {
		m.payouts.Add(ctx, int64(l.Payout), by)
	}
	m.shortfalls.Add(ctx, int64(l.Shortfall), by)
}

func (m *metrics) cardAlarm(r card.AlarmReason) {
	m.alarms.Add(context.Background(), 1,
		metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", string(r)))))
}

func (m *metrics) renewFailed() { m.renewals.Add(context.Background(), 1) }

func (m *metrics) admitted(o hold.Outcome, n int) {
	m.admissions.Add(context.Background(), int64(n), m.byOutcome[o])
}

func (m *metrics) settled(r usage.Result) { m.usage.Add(context.Background(), 1, m.byResult[r]) }

func (m *metrics) heldEarning(r usage.Rule) { m.earnings.Add(context.Background(), 1, m.byRule[r]) }

func (m *metrics) answered(o idempotency.Outcome) {
	m.answers.Add(context.Background(), 1, m.byAnswer[o])
}

// figuresTimeout bounds the query behind the gauges. Without an answer the gauges are
// missing, which is more honest than an old number.
const figuresTimeout = 2 * time.Second

func (s *Service) watchFigures() (metric.Registration, error) {
	m := s.metrics
	watch, err := s.deps.Meters.Meter("svc.internal/services/billing-ledger").RegisterCallback(
		func(ctx context.Context, o metric.Observer) error {
			s.observe(ctx, o)
			return nil
		}, m.waiting, m.openHolds, m.held, m.oldestHold, m.reviews, m.usageWaiting, m.usageLag, m.keptBytes, m.standby,
		m.overdue, m.openAlarms, m.cardLag)
	if err != nil {
		return nil, fmt.Errorf("watch the ledger's figures: %w", err)
	}
	return watch, nil
}

func (s *Service) observe(ctx context.Context, o metric.Observer) {
	o.ObserveInt64(s.metrics.waiting, int64(s.admitter.Waiting()))
	waiting, since := s.consumer.Backlog()
	lag := 0.0
	if !since.IsZero() {
		lag = max(0, s.deps.Clock.Now().Sub(since).Seconds())
	}
	o.ObserveInt64(s.metrics.usageWaiting, int64(waiting))
	o.ObserveFloat64(s.metrics.usageLag, lag)
	ctx, cancel := context.WithTimeout(ctx, figuresTimeout)
	defer cancel()
	figures, err := s.store.Figures(ctx, s.cfg.RetentionDays)
	if err != nil {
		s.deps.Log.DebugContext(ctx, "the ledger's figures cannot be read", "error", err)
		return
	}
	o.ObserveInt64(s.metrics.openHolds, figures.OpenHolds)
	o.ObserveInt64(s.metrics.held, int64(figures.Held))
	o.ObserveFloat64(s.metrics.oldestHold, figures.OldestHold.Seconds())
	o.ObserveInt64(s.metrics.reviews, figures.Reviews)
	o.ObserveInt64(s.metrics.keptBytes, figures.KeptBytes)
	o.ObserveInt64(s.metrics.overdue, figures.Overdue)
	s.observeCards(ctx, o)
	standby, err := s.store.SynchronousStandby(ctx)
	if err != nil {
		s.deps.Log.DebugContext(ctx, "the ledger's figures cannot be read", "error", err)
		return
	}
	value := int64(0)
	if standby {
		value = 1
	}
	o.ObserveInt64(s.metrics.standby, value)
}

// observeCards observes what waits of card payments.
func (s *Service) observeCards(ctx context.Context, o metric.Observer) {
	alarms, lag, err := store.Cards{Store: s.store}.Figures(ctx)
	if err != nil {
		s.deps.Log.DebugContext(ctx, "the figures of card payments cannot be read", "error", err)
		return
	}
	o.ObserveInt64(s.metrics.openAlarms, alarms)
	o.ObserveFloat64(s.metrics.cardLag, lag.Seconds())
}
