package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Keys of the attributes that a line takes from its context.
const (
	requestIDKey = "request_id"
	traceIDKey   = "trace_id"
)

// NewLog makes a logger alone, for programs that measure nothing.
func NewLog(cfg Config, out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return nil, fmt.Errorf("log level %q is none of debug, info, warn, error", cfg.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch strings.ToLower(cfg.LogFormat) {
	case "text":
		return slog.New(contextual{slog.NewTextHandler(out, opts)}), nil
	case "json":
		return slog.New(contextual{slog.NewJSONHandler(out, opts)}), nil
	default:
		return nil, fmt.Errorf("log format %q is neither text nor json", cfg.LogFormat)
	}
}

type requestID struct{}

// WithRequestID sets the request that ctx works for. Log lines name it, and serve's
// interceptors pass it to the services that are called.
func WithRequestID(ctx context.Context, id string) context.Context {
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, requestID{}, id)
}

// RequestID returns the request that ctx works for, or empty.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestID{}).(string)
	return id
}

// contextual adds to each record the request and the trace of its context. A line about
// one request of a batch names that request itself; then the context's is left out.
type contextual struct{ slog.Handler }

// Handle implements slog.Handler.
func (h contextual) Handle(ctx context.Context, r slog.Record) error {
	id, span := RequestID(ctx), trace.SpanContextFromContext(ctx)
	if id != "" && !says(&r, requestIDKey) {
		r.AddAttrs(slog.String(requestIDKey, id))
	}
	if span.HasTraceID() {
		r.AddAttrs(slog.String(traceIDKey, span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func says(r *slog.Record, key string) bool {
	found := false
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}

// WithAttrs implements slog.Handler.
func (h contextual) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextual{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h contextual) WithGroup(name string) slog.Handler {
	return contextual{h.Handler.WithGroup(name)}
}
