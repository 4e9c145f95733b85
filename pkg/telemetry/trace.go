package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"
)

const (
	spanQueue     = 8192
	spanBatch     = 512
	exportTimeout = 5 * time.Second
	// flushTimeout bounds the last export when a process stops.
	flushTimeout = 5 * time.Second
	// complainInterval is the pause between two log lines about a collector that is away.
	complainInterval = time.Minute

	spanEntries = 32
	spanText    = 256
)

// Validate returns every invalid setting of the tracing.
func (c Config) Validate() error {
	var faults []error
	if !(c.TraceRatio >= 0 && c.TraceRatio <= 1) { // NaN is neither
		faults = append(faults, fmt.Errorf("the trace ratio %v is not between 0 and 1", c.TraceRatio))
	}
	if c.OTLPEndpoint != "" {
		if _, _, err := net.SplitHostPort(c.OTLPEndpoint); err != nil {
			faults = append(faults, fmt.Errorf("the OTLP endpoint %q is not host:port", c.OTLPEndpoint))
		}
	}
	return errors.Join(faults...)
}

// clear reports whether the connection to the collector is not encrypted.
func (c Config) clear() bool {
	if c.OTLPTLS != nil {
		return false
	}
	host, _, err := net.SplitHostPort(c.OTLPEndpoint)
	ip := net.ParseIP(host)
	return c.OTLPInsecure || err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// NewTraces makes a tracer provider alone, for programs that measure nothing, and returns
// the function that stops it.
func NewTraces(cfg Config, log *slog.Logger) (trace.TracerProvider, func(context.Context) error, error) {
	return newTraces(cfg, log)
}

func newTraces(cfg Config, log *slog.Logger) (*sdktrace.TracerProvider, func(context.Context) error, error) {
	if err := cfg.Validate(); err != nil {
		return nil, nil, fmt.Errorf("set up traces: %w", err)
	}
	if cfg.OTLPEndpoint == "" {
		traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
		return traces, traces.Shutdown, nil
	}
	exporter, err := newExporter(cfg)
	if err != nil {
		return nil, nil, err
	}
	instance := cfg.Instance
	if instance == "" {
		instance = rand.Text()
	}
	traces := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.TraceRatio))),
		sdktrace.WithBatcher(&patient{SpanExporter: exporter, log: log},
			sdktrace.WithMaxQueueSize(spanQueue), sdktrace.WithMaxExportBatchSize(spanBatch),
			sdktrace.WithBatchTimeout(time.Second), sdktrace.WithExportTimeout(exportTimeout)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", cfg.Service), attribute.String("service.instance.id", instance))),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: spanText, AttributeCountLimit: spanEntries, EventCountLimit: spanEntries,
			LinkCountLimit: spanEntries, AttributePerEventCountLimit: spanEntries, AttributePerLinkCountLimit: spanEntries,
		}),
	)
	return traces, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		if err := traces.Shutdown(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		return nil // spans that a silent collector did not take are lost, and that is all
	}, nil
}

func newExporter(cfg Config) (*otlptrace.Exporter, error) {
	secure := otlptracegrpc.WithTLSCredentials(credentials.NewTLS(cfg.OTLPTLS))
	if cfg.clear() {
		secure = otlptracegrpc.WithInsecure()
	}
	// New dials lazily, so it fails only for malformed settings. A failed export is not
	// tried again for long, because the next batch waits for it.
	exporter, err := otlptracegrpc.New(context.Background(), otlptracegrpc.WithEndpoint(cfg.OTLPEndpoint), secure,
		otlptracegrpc.WithTimeout(exportTimeout), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: 200 * time.Millisecond, MaxInterval: time.Second, MaxElapsedTime: exportTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("set up the trace exporter: %w", err)
	}
	return exporter, nil
}

// patient logs now and then that spans are lost, and never fails.
type patient struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	lost atomic.Int64
	said atomic.Int64 // Unix nanoseconds
}

// ExportSpans implements sdktrace.SpanExporter.
func (p *patient) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := p.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	lost := p.lost.Add(int64(len(spans)))
	now, said := time.Now().UnixNano(), p.said.Load()
	if (said == 0 || now-said >= int64(complainInterval)) && p.said.CompareAndSwap(said, now) {
		p.lost.Add(-lost)
		p.log.Warn("spans are lost: the trace collector does not take them", "spans", lost, "error", err)
	}
	return nil
}
