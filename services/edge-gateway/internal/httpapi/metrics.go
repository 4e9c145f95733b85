package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/edge-gateway/internal/genai"
)

// Metrics are the gateway's instruments.
type Metrics struct {
	duration metric.Float64Histogram
	models   *genai.Metrics
	refusals metric.Int64Counter
	// ConnectionsRefused counts connections that were closed at once.
	ConnectionsRefused metric.Int64Counter

	// sets holds one option for each route and status, and for each code of an error. This
	// package's own constants bound all of them.
	sets sync.Map
}

// labelled is the key of an option. Its attributes are made once.
type labelled interface{ attributes() []attribute.KeyValue }

type routeStatus struct {
	route  string
	status int
}

func (r routeStatus) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("http.route", r.route), attribute.Int("http.response.status_code", r.status)}
}

type refusal struct{ route, code string }

func (r refusal) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("http.route", r.route), attribute.String("code", r.code)}
}

// NewMetrics makes the instruments.
func NewMetrics(meters metric.MeterProvider) (*Metrics, error) {
	meter := meters.Meter("svc.internal/services/edge-gateway")
	var m Metrics
	var errs [4]error
	m.duration, errs[0] = meter.Float64Histogram("svc.edge_gateway.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP requests by route and status."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600))
	m.models, errs[1] = genai.New(meters)
	m.ConnectionsRefused, errs[2] = meter.Int64Counter("svc.edge_gateway.connections.refused",
		metric.WithDescription("Connections closed at once, by the bound that was reached: "+
			"full (of all) or network_full (of one network)."))
	m.refusals, errs[3] = meter.Int64Counter("svc.edge_gateway.refusals",
		metric.WithDescription("Requests that ended with an error, by route and our code."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the gateway's instruments: %w", err)
	}
	return &m, nil
}

func (m *Metrics) request(ctx context.Context, route string, status int, took time.Duration) {
	m.duration.Record(ctx, took.Seconds(), m.set(routeStatus{route, status}))
}

// refused counts a request that ended with an error. KnownCode bounds the codes.
func (m *Metrics) refused(ctx context.Context, route, code string) {
	m.refusals.Add(ctx, 1, m.set(refusal{route, code}))
}

// model records a request whose model is known, however it ended.
func (m *Metrics) model(ctx context.Context, r genai.Request) { m.models.Record(ctx, r) }

func (m *Metrics) set(key labelled) metric.MeasurementOption {
	set, ok := m.sets.Load(key)
	if !ok {
		set, _ = m.sets.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(key.attributes()...)))
	}
	return set.(metric.MeasurementOption)
}
