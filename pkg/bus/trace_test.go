package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
)

// traced is a connection whose spans are recorded, and what it records.
func traced(t *testing.T) (*bus.Conn, *sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	conn, err := bus.Connect(t.Context(), bus.Config{Name: t.Name(), InProcess: bustest.NewServer(t), Traces: traces})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	ensure(t, conn, bus.UsageStream)
	return conn, traces, spans
}

func spanNamed(spans *tracetest.SpanRecorder, name string) sdktrace.ReadOnlySpan {
	for _, s := range spans.Ended() {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// expectPath fails unless each span is the parent of the one after it.
func expectPath(t *testing.T, spans *tracetest.SpanRecorder, names ...string) {
	t.Helper()
	var above sdktrace.ReadOnlySpan
	for _, name := range names {
		s := spanNamed(spans, name)
		if s == nil {
			t.Fatalf("no span %q ended", name)
		}
		if above != nil && s.Parent().SpanID() != above.SpanContext().SpanID() {
			t.Errorf("%q is not below %q", name, above.Name())
		}
		above = s
	}
}

// consumeOnce has every message handled until a batch succeeds, and returns
// when Consume has: then all its spans have ended.
func consumeOnce(t *testing.T, conn *bus.Conn, handle func(context.Context, bus.Msg) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := bus.ConsumerConfig{Stream: bus.UsageStream, Durable: "d", RetryMin: 1, RetryMax: 1}
	err := conn.Consume(ctx, cfg, func(ctx context.Context, msgs []bus.Msg) error {
		for _, m := range msgs {
			if err := handle(ctx, m); err != nil {
				return err
			}
		}
		cancel()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestATraceGoesFromThePublicationToTheHandlersOwnSpan(t *testing.T) {
	for how, publish := range map[string]func(context.Context, *bus.Conn) error{
		"at once": func(ctx context.Context, c *bus.Conn) error {
			_, err := c.PublishStream(ctx, bus.SubjectUsage("h"), "m-1", []byte("x"), nil)
			return err
		},
		"asynchronously": func(ctx context.Context, c *bus.Conn) error {
			future, err := c.PublishStreamAsync(ctx, bus.SubjectUsage("h"), "m-1", []byte("x"), nil)
			if err != nil {
				return err
			}
			_, err = future.Wait(ctx)
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			conn, traces, spans := traced(t)
			ctx, root := traces.Tracer("test").Start(patientContext(t), "root")
			if err := publish(ctx, conn); err != nil {
				t.Fatal(err)
			}
			root.End()
			consumeOnce(t, conn, func(ctx context.Context, m bus.Msg) error {
				_, span := m.Span(ctx, "settle")
				span.End()
				return nil
			})
			expectPath(t, spans, "root", "publish "+bus.SubjectUsage("h"), "process "+bus.SubjectUsage("h"), "settle")
		})
	}
}

func TestAFailedBatchFailsTheSpanOfItsMessages(t *testing.T) {
	conn, traces, spans := traced(t)
	ctx, root := traces.Tracer("test").Start(patientContext(t), "root")
	if _, err := conn.PublishStream(ctx, bus.SubjectUsage("h"), "m-1", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	root.End()
	var calls atomic.Int32
	consumeOnce(t, conn, func(context.Context, bus.Msg) error {
		if calls.Add(1) == 1 {
			return errors.New("not now: secret")
		}
		return nil
	})
	s := spanNamed(spans, "process "+bus.SubjectUsage("h"))
	if s == nil {
		t.Error("the failed delivery: got nil, want a value")
	} else if got := s.Status().Code; got != otelcodes.Error {
		t.Errorf("the failed delivery: s.Status().Code: got %v, want %v", got, otelcodes.Error)
	} else if got := s.Status().Description; got != "" {
		t.Errorf(`the failed delivery: s.Status().Description: got %q, want ""`, got)
	}
}

func TestMessagesOutsideARecordedTraceHaveNoSpan(t *testing.T) {
	conn, _, spans := traced(t)
	for _, id := range []string{"m-1", "m-2"} {
		ctx := patientContext(t)
		if id == "m-2" {
			ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
		}
		if _, err := conn.PublishStream(ctx, bus.SubjectUsage("h"), id, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]trace.SpanContext{}
	consumeOnce(t, conn, func(ctx context.Context, m bus.Msg) error {
		ctx, span := m.Span(ctx, "settle")
		span.End()
		seen[m.ID] = trace.SpanContextFromContext(ctx)
		return nil
	})
	if got := spans.Ended(); len(got) != 0 {
		t.Errorf("len(got): got %d, want 0", len(got))
	}
	// The log still finds the trace.
	if (seen["m-2"].TraceID() != trace.TraceID{1}) {
		t.Errorf("the handler sees: got %v, want %v", seen["m-2"].TraceID(), trace.TraceID{1})
	}
}
