package provideragent

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"svc.internal/pkg/telemetry"
	"svc.internal/services/provider-agent/internal/connection"
)

func tracerOf(traces trace.TracerProvider) trace.Tracer {
	if traces == nil {
		traces = noop.NewTracerProvider()
	}
	return traces.Tracer("svc.internal/services/provider-agent")
}

// engineCall starts the span of a call to the engine, below the hub's attempt.
// r.Traceparent becomes what the engine is sent: this span, or the hub's where the trace
// is not recorded here.
func (a *Agent) engineCall(ctx context.Context, r *connection.Request) trace.Span {
	ctx = telemetry.WithTraceparent(ctx, r.Traceparent)
	if !telemetry.Sampled(ctx) {
		return noop.Span{}
	}
	ctx, span := a.tracer.Start(ctx, r.Endpoint.String()+" "+r.ModelID, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", r.Endpoint.String()), attribute.String("gen_ai.request.model", r.ModelID),
			attribute.Bool("gen_ai.request.stream", r.Stream), attribute.String("svc.request_id", r.ID)))
	if span.IsRecording() {
		r.Traceparent = telemetry.Traceparent(ctx)
	}
	return span
}

// answered ends the span of a call to the engine. It quotes no error, because an engine's
// error may quote the prompt.
func answered(span trace.Span, answer connection.Answer) {
	if answer.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", answer.Status))
	}
	if answer.Err != nil || answer.Status >= 400 {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
