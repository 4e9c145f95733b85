// Package telemetry gives a process its log, its metrics and its trace
// context.
//
// Logs are structured (log/slog) and hold no prompt, body, key or token.
// Metrics are OpenTelemetry instruments read in Prometheus form by Handler.
// Trace context is W3C traceparent: Traceparent and WithTraceparent move it
// over hops that are not gRPC; serve's interceptors carry it over those that
// are. Spans are given ids and passed on, and are not recorded.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config says how much is told, and in which form.
type Config struct {
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// LogFormat is text or json.
	LogFormat string
}

// Telemetry is what a process tells about itself.
type Telemetry struct {
	Log    *slog.Logger
	Meters metric.MeterProvider
	Traces trace.TracerProvider

	registry *prometheus.Registry
	stop     []func(context.Context) error
}

// Start sets telemetry up. Logs go to out.
func Start(cfg Config, out io.Writer) (*Telemetry, error) {
	log, err := NewLog(cfg, out)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("set up the metrics exporter: %w", err)
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	return &Telemetry{
		Log: log, Meters: meters, Traces: traces, registry: registry,
		stop: []func(context.Context) error{meters.Shutdown, traces.Shutdown},
	}, nil
}

// NewLog makes a logger alone, for programs that measure nothing.
func NewLog(cfg Config, out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return nil, fmt.Errorf("log level %q is none of debug, info, warn, error", cfg.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch strings.ToLower(cfg.LogFormat) {
	case "text":
		return slog.New(slog.NewTextHandler(out, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, opts)), nil
	default:
		return nil, fmt.Errorf("log format %q is neither text nor json", cfg.LogFormat)
	}
}

// Handler answers with all metrics in Prometheus form.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Stop flushes what is pending.
func (t *Telemetry) Stop(ctx context.Context) error {
	for _, stop := range t.stop {
		if err := stop(ctx); err != nil {
			return fmt.Errorf("stop telemetry: %w", err)
		}
	}
	return nil
}

var w3c propagation.TraceContext

// Traceparent is the trace context of ctx in W3C form, empty when there is
// none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// WithTraceparent continues the trace that a peer named. Malformed text leaves
// ctx as it is.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
