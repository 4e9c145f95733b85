package bus

import (
	"context"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
)

// Header has the headers of a message. Keys are compared byte by byte.
type Header map[string][]string

// Get returns the first value of key, or "".
func (h Header) Get(key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Set replaces the values of key.
func (h Header) Set(key, value string) { h[key] = []string{value} }

// Keys returns the keys in order.
func (h Header) Keys() []string { return slices.Sorted(maps.Keys(h)) }

// Inject writes the trace of ctx, if it has one, as W3C traceparent and
// tracestate. Every publishing method of Conn does it already.
func Inject(ctx context.Context, h Header) { propagation.TraceContext{}.Inject(ctx, h) }

// Extract returns ctx with the trace that h carries, as the remote parent.
func Extract(ctx context.Context, h Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, h)
}

// Message is a core message as it was received.
type Message struct {
	Subject string
	Header  Header
	Data    []byte
}

// outgoing copies h, because the message adds a trace of its own.
func outgoing(ctx context.Context, subject string, data []byte, h Header) *nats.Msg {
	own := make(Header, len(h)+2)
	maps.Copy(own, h)
	Inject(ctx, own)
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header(own)}
}
