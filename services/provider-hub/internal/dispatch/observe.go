package dispatch

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/telemetry"
)

// Events of an attempt's span.
const (
	eventOpenSent     = "open sent"
	eventFirstContent = "first content"
	eventCommitted    = "committed"
	eventFinalSynced  = "final synced"
)

// startSpan starts the span of an attempt below the span of its call. The agent and the
// usage then belong to the attempt's span. Where the trace is not recorded, startSpan
// starts no span, and the returned span ignores what is added to it.
func startSpan(ctx context.Context, o *Order) (context.Context, trace.Span) {
	caller := trace.SpanFromContext(ctx)
	if !caller.IsRecording() {
		return ctx, trace.SpanFromContext(context.Background())
	}
	ctx, span := caller.TracerProvider().Tracer("svc.internal/services/provider-hub").Start(ctx, "attempt",
		trace.WithAttributes(
			attribute.String("svc.request_id", o.Request.String()), attribute.Int("svc.attempt", int(o.Attempt)),
			attribute.String("svc.provider_id", o.Provider.String()), attribute.String("gen_ai.request.model", o.Model),
			attribute.Bool("gen_ai.request.stream", o.Stream)))
	o.Traceparent = telemetry.Traceparent(ctx)
	return ctx, span
}

// tell writes the log line of an attempt that ended, and ends its span.
func (d *Dispatcher) tell(ctx context.Context, r Report, stream, committed bool) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("svc.outcome", r.Outcome.String()), attribute.Int64("svc.completion_tokens",
			r.Tokens))
		if r.Outcome == Failed {
			span.SetStatus(codes.Error, "")
		}
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "attempt ended",
		slog.String("request_id", r.Request.String()),
		slog.Int("attempt", int(r.Attempt)),
		slog.String("provider_id", r.Provider.String()),
		slog.String("model", r.Model),
		slog.Bool("stream", stream),
		slog.String("outcome", r.Outcome.String()),
		slog.Bool("committed", committed),
		slog.Int64("first_content_ms", r.FirstContent.Milliseconds()),
		slog.Int64("duration_ms", r.Duration.Milliseconds()),
		slog.Int64("completion_tokens", r.Tokens))
}
