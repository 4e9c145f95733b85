package telemetry_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/telemetry"
	"svc.internal/pkg/telemetry/otlptest"
)

// patience is more than anything that ends may take.
const patience = 90 * time.Second

func tracing(endpoint string, ratio float64) telemetry.Config {
	return telemetry.Config{LogLevel: "warn", LogFormat: "text", Service: "edge-gateway", Instance: "i-1",
		OTLPEndpoint: endpoint, TraceRatio: ratio}
}

func begin(t *testing.T, cfg telemetry.Config, log *bytes.Buffer) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Start(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

func TestSpansReachTheCollectorWithTheirResource(t *testing.T) {
	collector := otlptest.Start(t)
	tel := begin(t, tracing(collector.Endpoint, 1), &bytes.Buffer{})
	ctx, parent := tel.Traces.Tracer("test").Start(t.Context(), "parent")
	_, child := tel.Traces.Tracer("test").Start(ctx, "child", trace.WithAttributes(attribute.Int("n", 7),
		attribute.String("long", strings.Repeat("x", 1000))))
	child.End()
	parent.End()
	// What a process still has is sent when it stops.
	if err := tel.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := collector.Spans()
	got, ok := otlptest.Find(spans, func(s otlptest.Span) bool { return s.Name == "child" })
	if !ok {
		t.Fatal("received: ok of otlptest.Find(…): got false, want true")
	}
	if found := strings.Join(otlptest.Path(spans, got), "<"); found != "child<parent" {
		t.Fatalf(`received: strings.Join(…): got %q, want "child<parent"`, found)
	}
	switch {
	case got.Resource["service.name"] != "edge-gateway":
		t.Errorf(`Resource["service.name"]: got %q, want "edge-gateway"`, got.Resource["service.name"])
	case got.Resource["service.instance.id"] != "i-1":
		t.Errorf(`Resource["service.instance.id"]: got %q, want "i-1"`, got.Resource["service.instance.id"])
	case got.Attributes["n"] != "7":
		t.Errorf(`Attributes["n"]: got %q, want "7"`, got.Attributes["n"])
	}
	if n := len(got.Attributes["long"]); n != 256 {
		t.Errorf("a text: got %d, want 256", n)
	}
}

func TestTheRootDecidesWhetherATraceIsRecorded(t *testing.T) {
	collector := otlptest.Start(t)
	tel := begin(t, tracing(collector.Endpoint, 0), &bytes.Buffer{})
	tracer := tel.Traces.Tracer("test")
	ctx, root := tracer.Start(t.Context(), "root")
	if telemetry.Sampled(ctx) {
		t.Error("a trace outside the ratio: sampled: telemetry.Sampled(ctx): got true, want false")
	} else if telemetry.Traceparent(ctx) == "" {
		t.Error(`a trace outside the ratio: telemetry.Traceparent(ctx): got "", want some text`)
	}
	root.End()
	remote := telemetry.WithTraceparent(t.Context(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	_, span := tracer.Start(remote, "continued")
	span.End()
	if err := tel.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	switch spans := collector.Spans(); {
	case len(spans) != 1:
		t.Errorf("received: len(spans): got %d, want 1, with %s", len(spans), otlptest.Tree(spans))
	case spans[0].Name != "continued":
		t.Errorf(`received: spans[0].Name: got %q, want "continued", with %s`, spans[0].Name, otlptest.Tree(spans))
	case spans[0].TraceID != "4bf92f3577b34da6a3ce929d0e0e4736":
		t.Errorf(`received: spans[0].TraceID: got %q, want "4bf92f3577b34da6a3ce929d0e0e4736", with %s`, spans[0].TraceID,
			otlptest.Tree(spans))
	}
}

func TestWithoutACollectorNothingIsRecorded(t *testing.T) {
	tel := begin(t, tracing("", 1), &bytes.Buffer{})
	ctx, span := tel.Traces.Tracer("test").Start(t.Context(), "root")
	switch {
	case span.IsRecording():
		t.Error("span.IsRecording(): got true, want false")
	case telemetry.Sampled(ctx):
		t.Error("telemetry.Sampled(ctx): got true, want false")
	case !span.SpanContext().IsValid():
		t.Errorf("span.SpanContext().IsValid(): got false, want true, with %v", span.SpanContext())
	}
	if err := tel.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestACollectorThatIsAwayCostsSpansAndOneWarning(t *testing.T) {
	collector := otlptest.Start(t)
	collector.Refuse(status.Error(codes.InvalidArgument, "no"))
	var log bytes.Buffer
	tel := begin(t, tracing(collector.Endpoint, 1), &log)
	tracer := tel.Traces.Tracer("test")
	began := time.Now()
	for range 20_000 { // more than the queue holds
		_, span := tracer.Start(t.Context(), "lost")
		span.End()
	}
	if took := time.Since(began); took > patience {
		t.Errorf("ending spans took: got %v, want at most %v", took, patience)
	}
	if err := tel.Stop(t.Context()); err != nil {
		t.Errorf("a stop without a collector: %v", err)
	}
	if n := strings.Count(log.String(), "spans are lost"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
	if n := len(collector.Spans()); n != 0 {
		t.Errorf("spans arrived: got %d, want 0", n)
	}
}

// A collector that accepts connections and never speaks must not hold up a
// stop for longer than its bound.
func TestASilentCollectorDoesNotHoldUpAStop(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	tel := begin(t, tracing(lis.Addr().String(), 1), &bytes.Buffer{})
	_, span := tel.Traces.Tracer("test").Start(t.Context(), "lost")
	span.End()
	began := time.Now()
	if err := tel.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("the stop took: got %v, want at most %v", took, patience)
	}
}

func TestABadTraceSettingIsRefused(t *testing.T) {
	for _, cfg := range []telemetry.Config{
		tracing("collector", 1), tracing("", 1.5), tracing("", -1), tracing("", math.NaN()),
	} {
		if _, err := telemetry.Start(cfg, &bytes.Buffer{}); err == nil {
			t.Errorf("%q with ratio %v was accepted", cfg.OTLPEndpoint, cfg.TraceRatio)
		}
	}
}

func FuzzATraceparentGoesOnAsItCameOrNotAtAll(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("00-00000000000000000000000000000000-00f067aa0ba902b7-01")
	f.Add("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-x")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		got := telemetry.Traceparent(telemetry.WithTraceparent(context.Background(), text))
		if got == "" {
			return
		}
		span := trace.SpanContextFromContext(telemetry.WithTraceparent(context.Background(), text))
		if want := fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(),
			span.TraceFlags()&trace.FlagsSampled); got != want {
			t.Errorf("%q went: got %q, want %q", text, got, want)
		}
	})
}
