package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/telemetry"
)

// recorded is a tracer provider whose ended spans can be looked at.
func recorded() (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), spans
}

func named(spans *tracetest.SpanRecorder, kind trace.SpanKind) sdktrace.ReadOnlySpan {
	for _, s := range spans.Ended() {
		if s.SpanKind() == kind {
			return s
		}
	}
	return nil
}

func text(s sdktrace.ReadOnlySpan, key attribute.Key) string {
	set := attribute.NewSet(s.Attributes()...)
	v, _ := set.Value(key)
	return v.AsString()
}

func TestARecordedCallHasASpanOnBothEnds(t *testing.T) {
	const method = "grpc.health.v1.Health/"
	answers := map[string]error{"OK": nil, "RESOURCE_EXHAUSTED": fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"secret text")}
	for code, answer := range answers {
		traces, spans := recorded()
		server := &checker{check: func(context.Context) error { return answer }}
		for name, conn := range channelsWith(t, server, slog.New(slog.DiscardHandler), traces) {
			client := grpc_health_v1.NewHealthClient(conn)
			for call, make := range map[string]func(context.Context){
				"Check": func(ctx context.Context) { _, _ = client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}) },
				"Watch": func(ctx context.Context) {
					stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
					if err != nil {
						t.Fatal(err)
					}
					_, _ = stream.Recv()
				},
			} {
				t.Run(name+" "+call+" "+code, func(t *testing.T) {
					spans.Reset()
					ctx, root := traces.Tracer("test").Start(t.Context(), "root")
					make(ctx)
					root.End()
					above, below := named(spans, trace.SpanKindClient), named(spans, trace.SpanKindServer)
					switch {
					case above == nil:
						t.Fatal("client: got nil, want a value")
					case below == nil:
						t.Fatal("below: got nil, want a value")
					case above.Parent().SpanID() != root.SpanContext().SpanID():
						t.Fatalf("client: above.Parent().SpanID(): got %v, want %v", above.Parent().SpanID(), root.SpanContext().SpanID())
					case below.Parent().SpanID() != above.SpanContext().SpanID():
						t.Fatalf("below.Parent().SpanID(): got %v, want %v", below.Parent().SpanID(), above.SpanContext().SpanID())
					}
					for _, s := range []sdktrace.ReadOnlySpan{above, below} {
						if s.Name() != method+call {
							t.Errorf("s.Name(): got %q, want %q", s.Name(), method+call)
						} else if got := text(s, "rpc.method"); got != method+call {
							t.Errorf(`text(s, "rpc.method"): got %q, want %q`, got, method+call)
						} else if got := text(s, "rpc.system.name"); got != "grpc" {
							t.Errorf(`text(s, "rpc.system.name"): got %q, want "grpc"`, got)
						} else if got := text(s, "rpc.response.status_code"); got != code {
							t.Errorf(`text(s, "rpc.response.status_code"): got %q, want %q`, got, code)
						}
						if answer != nil && text(s, "svc.reason") != "rate_limit_exceeded" {
							t.Errorf("%s says %v", s.Name(), s.Attributes())
						}
						if strings.Contains(s.Status().Description, "secret") {
							t.Error("a span quotes an error")
						}
					}
					// A caller's mistake is an error of the caller alone.
					if failed := text(above, "error.type") != ""; failed != (answer != nil) {
						t.Errorf("failed: got %t, want %t", failed, answer != nil)
					} else if got := text(below, "error.type"); got != "" {
						t.Errorf(`text(below, "error.type"): got %q, want ""`, got)
					}
				})
			}
		}
	}
}

func TestACallOutsideARecordedTraceHasNoSpan(t *testing.T) {
	traces, spans := recorded()
	client := grpc_health_v1.NewHealthClient(channelsWith(t, &checker{check: func(context.Context) error { return nil }},
		slog.New(slog.DiscardHandler), traces)["in process"])
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, span := unsampled.Tracer("test").Start(t.Context(), "root")
	defer span.End()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := spans.Ended(); len(got) != 0 {
		t.Errorf("len(got): got %d, want 0", len(got))
	}
}

// A process without a collector stands between two that have one.
func TestATracePassesThroughAProcessThatRecordsNone(t *testing.T) {
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	var seen trace.SpanContext
	server := &checker{check: func(ctx context.Context) error {
		seen = trace.SpanContextFromContext(ctx)
		return nil
	}}
	traces, _ := recorded()
	ctx, span := traces.Tracer("test").Start(t.Context(), "root")
	defer span.End()
	for name, conn := range channelsWith(t, server, slog.New(slog.DiscardHandler), never) {
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
		if seen.SpanID() != span.SpanContext().SpanID() {
			t.Errorf("%s: arrived: seen.SpanID(): got %v, want %v", name, seen.SpanID(), span.SpanContext().SpanID())
		} else if !seen.IsSampled() {
			t.Errorf("%s: arrived: seen.IsSampled(): got false, want true, with %v", name, seen)
		}
	}
}

func TestAStreamThatIsTurnedAwayFromEndsItsSpan(t *testing.T) {
	traces, _ := recorded()
	ended := make(chan struct{}, 8)
	traces.RegisterSpanProcessor(onEnd(func(s sdktrace.ReadOnlySpan) {
		if s.SpanKind() == trace.SpanKindClient {
			ended <- struct{}{}
		}
	}))
	server := &checker{check: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	for _, conn := range channelsWith(t, server, slog.New(slog.DiscardHandler), traces) {
		ctx, root := traces.Tracer("test").Start(t.Context(), "root")
		ctx, cancel := context.WithCancel(ctx)
		if _, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-ended
		root.End()
	}
}

type onEnd func(sdktrace.ReadOnlySpan)

func (onEnd) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (f onEnd) OnEnd(s sdktrace.ReadOnlySpan)                 { f(s) }
func (onEnd) Shutdown(context.Context) error                  { return nil }
func (onEnd) ForceFlush(context.Context) error                { return nil }

func TestTheLinesOfARequestAreFoundByItsIDInTheServiceThatIsCalled(t *testing.T) {
	var out bytes.Buffer
	log, err := telemetry.NewLog(telemetry.Config{LogLevel: "debug", LogFormat: "json"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	server := &checker{check: func(ctx context.Context) error {
		log.InfoContext(ctx, "served")
		return nil
	}}
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	traced, span := never.Tracer("test").Start(t.Context(), "root")
	defer span.End()
	for name, conn := range channelsWith(t, server, log, never) {
		for id, want := range map[string]any{"0192f0c0": "0192f0c0", strings.Repeat("x", maxRequestID+1): nil, "": nil} {
			for ctx, wantTrace := range map[context.Context]any{t.Context(): nil,
				traced: span.SpanContext().TraceID().String()} {
				out.Reset()
				if _, err := grpc_health_v1.NewHealthClient(conn).Check(telemetry.WithRequestID(ctx, id),
					&grpc_health_v1.HealthCheckRequest{}); err != nil {
					t.Fatal(err)
				}
				var line map[string]any
				switch err := json.Unmarshal(out.Bytes(), &line); {
				case err != nil:
					t.Errorf("%s: with %q and trace %v the line: got the error %v, want none", name, id, wantTrace, err)
				case line["request_id"] != want:
					t.Errorf(`%s: with %q and trace %v the line: line["request_id"]: got %v, want %v`, name, id, wantTrace,
						line["request_id"], want)
				case line["trace_id"] != wantTrace:
					t.Errorf(`%s: with %q and trace %v the line: line["trace_id"]: got %v, want %v`, name, id, wantTrace,
						line["trace_id"], wantTrace)
				}
			}
		}
	}
}

func TestBothEndsMeasureCallsByMethodAndCode(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	traces, _ := recorded()
	in, err := NewInterceptors(slog.New(slog.DiscardHandler), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		traces)
	if err != nil {
		t.Fatal(err)
	}
	answer := fault.New(fault.Unavailable, fault.ServiceUnavailable, "no")
	channel := NewInProcess(in)
	grpc_health_v1.RegisterHealthServer(channel, &checker{check: func(context.Context) error { return answer }})
	for range 3 {
		_, _ = grpc_health_v1.NewHealthClient(channel.Client()).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	want := attribute.NewSet(attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method",
		"grpc.health.v1.Health/Check"),
		attribute.String("rpc.response.status_code", "UNAVAILABLE"), attribute.String("error.type", "UNAVAILABLE"))
	var names []string
	for _, m := range all.ScopeMetrics[0].Metrics {
		names = append(names, m.Name)
		points := m.Data.(metricdata.Histogram[float64]).DataPoints
		switch {
		case len(points) != 1:
			t.Errorf("%s: len(points): got %d, want 1, in %+v", m.Name, len(points), points)
		case points[0].Count != 3:
			t.Errorf("%s: points[0].Count: got %d, want 3", m.Name, points[0].Count)
		case !points[0].Attributes.Equals(&want):
			t.Errorf("%s: points[0].Attributes.Equals(&want): got false, want true", m.Name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"rpc.client.call.duration", "rpc.server.call.duration"}) {
		t.Errorf("metrics: got %q, want %q", names, []string{"rpc.client.call.duration", "rpc.server.call.duration"})
	}
}

func TestEveryCodeHasItsNameByTheSpecification(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		var back codes.Code
		if err := back.UnmarshalJSON([]byte(`"` + codeName(code) + `"`)); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if back != code {
			t.Errorf("back: got %v, want %v, with %s", back, code, codeName(code))
		}
	}
	if codeName(99) != "UNKNOWN" {
		t.Errorf(`an unknown code is written: got %q, want "UNKNOWN"`, codeName(99))
	}
}
