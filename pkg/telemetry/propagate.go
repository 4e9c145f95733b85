package telemetry

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

var w3c propagation.TraceContext

// Traceparent returns the trace context of ctx in W3C form, empty when there is none.
func Traceparent(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	const size = 2 + 1 + 32 + 1 + 16 + 1 + 2
	var text [size]byte
	copy(text[:], "00-")
	traceID, spanID := span.TraceID(), span.SpanID()
	hex.Encode(text[3:], traceID[:])
	text[35] = '-'
	hex.Encode(text[36:], spanID[:])
	text[52] = '-'
	hex.Encode(text[53:], []byte{byte(span.TraceFlags() & trace.FlagsSampled)})
	return string(text[:])
}

// WithTraceparent continues the trace that a peer named. Malformed text leaves
// ctx as it is.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return w3c.Extract(ctx, carrier(traceparent))
}

// carrier holds a traceparent and nothing else.
type carrier string

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if key == "traceparent" {
		return string(c)
	}
	return ""
}

// Set implements propagation.TextMapCarrier; nothing is ever set.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return []string{"traceparent"} }

// Sampled reports whether the trace of ctx is recorded. Where it is not, a span is not
// worth starting.
func Sampled(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }
