package billingledger

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// metrics are the service's instruments with their attributes made beforehand.
type metrics struct {
	admissions metric.Int64Counter
	released   metric.Int64Counter
	expired    metric.Int64Counter
	usage      metric.Int64Counter
	waiting    metric.Int64ObservableGauge

	byOutcome map[hold.Outcome]metric.AddOption
	byResult  map[usage.Result]metric.AddOption
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	m := &metrics{byOutcome: map[hold.Outcome]metric.AddOption{}, byResult: map[usage.Result]metric.AddOption{}}
	for _, o := range hold.Outcomes() {
		m.byOutcome[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", string(o))))
	}
	for _, r := range usage.Results() {
		m.byResult[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", string(r))))
	}
	var errs [5]error
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
	return m, errors.Join(errs[:]...)
}

func (m *metrics) admitted(o hold.Outcome, n int) {
	m.admissions.Add(context.Background(), int64(n), m.byOutcome[o])
}

func (m *metrics) settled(r usage.Result) { m.usage.Add(context.Background(), 1, m.byResult[r]) }
