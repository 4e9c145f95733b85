// Package telemetry gives a process its log, its metrics and its traces.
//
// Logs are structured (log/slog) and hold no prompt, body, key or token. Every
// line that is written with a context names the request and the trace that the
// context belongs to (see WithRequestID), so that one id finds the lines of a
// request in all services.
//
// Metrics are OpenTelemetry instruments read in Prometheus form by Handler. A measurement
// of a recorded trace may be the exemplar of its bucket.
//
// Traces are W3C trace context: Traceparent and WithTraceparent move it over
// hops that are neither gRPC (serve's interceptors) nor NATS (bus). Spans are
// recorded only when Config names a collector and the trace is sampled; then
// they are sent to it over OTLP/gRPC in the background. Without a collector a
// trace has its ids all the same, for the log.
//
// Bounds: 8,192 ended spans wait to be sent, then new ones are dropped; a batch
// has at most 512 spans and 5 s to be taken; spans have at most 32 attributes,
// events and links, and a text in one at most 256 characters. A collector that
// is away costs lost spans and one warning a minute, never a request's time.
package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"
)

// Config is how much a process logs and traces, in which form, and to which collector.
type Config struct {
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// LogFormat is text or json.
	LogFormat string

	// Service and Instance name this process in its traces. Without an
	// Instance a random one is made.
	Service  string
	Instance string
	// OTLPEndpoint is the host:port of an OTLP/gRPC collector of traces; empty
	// records nothing.
	OTLPEndpoint string
	// OTLPTLS secures the connection to it; nil means TLS with the system's roots.
	OTLPTLS *tls.Config
	// OTLPInsecure disables encryption. The connection to a collector on loopback is not
	// encrypted either, unless OTLPTLS is set.
	OTLPInsecure bool
	// TraceRatio is the part of traces that is recorded, 0 to 1. The span that begins a
	// trace decides for the whole trace.
	TraceRatio float64
}

// Telemetry is the log, the metrics and the traces of a process.
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
	traces, stopTraces, err := newTraces(cfg, log)
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
	return &Telemetry{
		Log: log, Meters: meters, Traces: traces, registry: registry,
		stop: []func(context.Context) error{meters.Shutdown, stopTraces},
	}, nil
}

// Handler answers with all metrics in Prometheus form, or in that of OpenMetrics to who asks
// for it. Only OpenMetrics has exemplars: of a histogram's bucket one measurement that was
// taken in a recorded trace, with the trace's id.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// Stop sends what is pending, for at most flushTimeout.
func (t *Telemetry) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range t.stop {
		errs = append(errs, stop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop telemetry: %w", err)
	}
	return nil
}
