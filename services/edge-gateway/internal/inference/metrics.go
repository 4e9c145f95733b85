package inference

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics are the instruments of requests that run.
type Metrics struct {
	firstContent metric.Float64Histogram
	added        metric.Float64Histogram
	attempts     metric.Int64Counter
	tokens       metric.Int64Counter
	open         metric.Int64UpDownCounter
	// ReportsDropped counts reports that found the queue full.
	ReportsDropped metric.Int64Counter

	// results holds one option for each result of an attempt.
	results sync.Map
}

// NewMetrics makes the instruments.
func NewMetrics(meters metric.MeterProvider) (*Metrics, error) {
	meter := meters.Meter("svc.internal/services/edge-gateway")
	var m Metrics
	var errs [6]error
	m.firstContent, errs[0] = meter.Float64Histogram("svc.edge_gateway.first_content", metric.WithUnit("s"),
		metric.WithDescription("Time from receipt to the first content."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 60))
	m.attempts, errs[1] = meter.Int64Counter("svc.edge_gateway.attempts",
		metric.WithDescription("Attempts on providers by result."))
	m.tokens, errs[2] = meter.Int64Counter("svc.edge_gateway.completion_tokens",
		metric.WithDescription("Completion tokens relayed, by the hubs' count."))
	m.open, errs[3] = meter.Int64UpDownCounter("svc.edge_gateway.completions.open",
		metric.WithDescription("Admitted completions under way."))
	m.ReportsDropped, errs[4] = meter.Int64Counter("svc.edge_gateway.reports.dropped",
		metric.WithDescription("Accounts of requests dropped because the queue was full."))
	// 0.25 is the bound of the objective in deploy/slo.md.
	m.added, errs[5] = meter.Float64Histogram("svc.edge_gateway.first_content.added", metric.WithUnit("s"),
		metric.WithDescription("Time to the first content of a stream, without the wait for the provider that answered."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the instruments of requests: %w", err)
	}
	return &m, nil
}

// attempt counts an attempt by its result, of which there are few.
func (m *Metrics) attempt(ctx context.Context, result string) {
	option, ok := m.results.Load(result)
	if !ok {
		set := attribute.NewSet(attribute.String("result", result))
		option, _ = m.results.LoadOrStore(result, metric.WithAttributeSet(set))
	}
	m.attempts.Add(ctx, 1, option.(metric.MeasurementOption))
}
