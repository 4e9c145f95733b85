package bus

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"svc.internal/pkg/telemetry"
)

const scope = "svc.internal/pkg/bus"

// Attributes by the conventions for messaging.
const (
	systemAttr      = attribute.Key("messaging.system")
	operationAttr   = attribute.Key("messaging.operation.name")
	typeAttr        = attribute.Key("messaging.operation.type")
	destinationAttr = attribute.Key("messaging.destination.name")
	groupAttr       = attribute.Key("messaging.consumer.group.name")
	messageAttr     = attribute.Key("messaging.message.id")
)

func tracerOf(traces trace.TracerProvider) trace.Tracer {
	if traces == nil {
		traces = noop.NewTracerProvider()
	}
	return traces.Tracer(scope)
}

// publishing starts the span of a message on its way into a stream. When the trace is not
// recorded, the span is nil and ctx is returned as it is.
func (c *Conn) publishing(ctx context.Context, subject, msgID string) (context.Context, trace.Span) {
	if !telemetry.Sampled(ctx) {
		return ctx, nil
	}
	spanCtx, span := c.tracer.Start(ctx, "publish "+subject, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			systemAttr.String("nats"), operationAttr.String("publish"), typeAttr.String("send"),
			destinationAttr.String(subject), messageAttr.String(msgID)))
	if !span.IsRecording() {
		return ctx, nil
	}
	return spanCtx, span
}

// processing starts the span of a message in a handler; nil when its trace is not
// recorded.
func (l *consumeLoop) processing(m *Msg) trace.Span {
	if !sampled(m.Header.Get("traceparent")) {
		return nil
	}
	_, span := l.conn.tracer.Start(Extract(context.Background(), m.Header), "process "+m.Subject,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			systemAttr.String("nats"), operationAttr.String("process"), typeAttr.String("process"),
			destinationAttr.String(m.Subject), groupAttr.String(l.cfg.Durable), messageAttr.String(m.ID)))
	if !span.IsRecording() {
		return nil
	}
	return span
}

// sampled reads the flag of a traceparent without parsing the rest. A message outside a
// recorded trace costs no more than that.
func sampled(traceparent string) bool {
	const flagAt = 54
	if len(traceparent) <= flagAt {
		return false
	}
	switch traceparent[flagAt] {
	case '1', '3', '5', '7', '9', 'b', 'd', 'f':
		return true
	}
	return false
}

// endSpan ends a span that may be nil. It does not quote the error, which may
// quote anything.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Context returns ctx within the message's trace. Spans that a handler starts for this
// message belong below it, and log lines name its trace.
func (m Msg) Context(ctx context.Context) context.Context {
	if m.span != nil {
		return trace.ContextWithSpan(ctx, m.span)
	}
	return Extract(ctx, m.Header)
}

// Span starts a span for a handler's work on this message. Where the message's trace is
// not recorded, the span ignores what it is given.
func (m Msg) Span(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx = m.Context(ctx)
	if m.span == nil {
		return ctx, noop.Span{}
	}
	return m.span.TracerProvider().Tracer(scope).Start(ctx, name, opts...)
}
