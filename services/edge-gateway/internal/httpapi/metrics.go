package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/genai"
	"svc.internal/services/edge-gateway/internal/inference"
)

// Metrics are the gateway's instruments.
type Metrics struct {
	duration     metric.Float64Histogram
	firstContent metric.Float64Histogram
	attempts     metric.Int64Counter
	tokens       metric.Int64Counter
	open         metric.Int64UpDownCounter
	models       *genai.Metrics
	// WitnessesDropped counts accounts that found the queue full.
	WitnessesDropped metric.Int64Counter
	// ConnectionsRefused counts connections that were closed at once.
	ConnectionsRefused metric.Int64Counter

	// sets holds one option for each route and status, and one for each
	// result; both are bounded by this package's own constants.
	sets sync.Map
}

type routeStatus struct {
	route  string
	status int
}

type attemptResult string

// NewMetrics makes the instruments.
func NewMetrics(meters metric.MeterProvider) (*Metrics, error) {
	meter := meters.Meter("svc.internal/services/edge-gateway")
	var m Metrics
	var errs [8]error
	m.duration, errs[0] = meter.Float64Histogram("svc.edge_gateway.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP requests by route and status."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600))
	m.firstContent, errs[1] = meter.Float64Histogram("svc.edge_gateway.first_content", metric.WithUnit("s"),
		metric.WithDescription("Time from receipt to the first content."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 60))
	m.attempts, errs[2] = meter.Int64Counter("svc.edge_gateway.attempts",
		metric.WithDescription("Attempts on providers by result."))
	m.tokens, errs[3] = meter.Int64Counter("svc.edge_gateway.completion_tokens",
		metric.WithDescription("Completion tokens relayed, by the hubs' count."))
	m.open, errs[4] = meter.Int64UpDownCounter("svc.edge_gateway.completions.open",
		metric.WithDescription("Admitted completions under way."))
	m.WitnessesDropped, errs[5] = meter.Int64Counter("svc.edge_gateway.reports.dropped",
		metric.WithDescription("Accounts of requests dropped because the queue was full."))
	m.models, errs[6] = genai.New(meters)
	m.ConnectionsRefused, errs[7] = meter.Int64Counter("svc.edge_gateway.connections.refused",
		metric.WithDescription("Connections closed at once, by the bound that was reached: full (of all) or network_full (of one network)."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the gateway's instruments: %w", err)
	}
	return &m, nil
}

func (m *Metrics) request(ctx context.Context, route string, status int, took time.Duration) {
	m.duration.Record(ctx, took.Seconds(), m.set(routeStatus{route, status},
		attribute.String("http.route", route), attribute.Int("http.response.status_code", status)))
}

// completion counts what became of an admitted request.
func (m *Metrics) completion(ctx context.Context, asked hubv1.Endpoint, result *inference.Result) {
	if result.FirstContent > 0 {
		m.firstContent.Record(ctx, result.FirstContent.Seconds())
	}
	if asked == hubv1.Endpoint_ENDPOINT_CHAT {
		m.tokens.Add(ctx, result.Tokens) // of others it counts something else
	}
	for _, attempt := range result.Attempts {
		m.attempts.Add(ctx, 1, m.set(attemptResult(attempt.GetResult()), attribute.String("result", attempt.GetResult())))
	}
}

// model measures a request whose model is known, whatever became of it.
func (m *Metrics) model(ctx context.Context, r genai.Request) { m.models.Record(ctx, r) }

func (m *Metrics) set(key any, attrs ...attribute.KeyValue) metric.MeasurementOption {
	set, ok := m.sets.Load(key)
	if !ok {
		set, _ = m.sets.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(attrs...)))
	}
	return set.(metric.MeasurementOption)
}
