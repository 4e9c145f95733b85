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
					if above == nil || below == nil || above.Parent().SpanID() != root.SpanContext().SpanID() ||
						below.Parent().SpanID() != above.SpanContext().SpanID() {
						t.Fatalf("client %v, server %v", above, below)
					}
					for _, s := range []sdktrace.ReadOnlySpan{above, below} {
						if s.Name() != method+call || text(s, "rpc.method") != method+call || text(s, "rpc.system.name") != "grpc" ||
							text(s, "rpc.response.status_code") != code {
							t.Errorf("%s says %v", s.Name(), s.Attributes())
						}
						if answer != nil && text(s, "svc.reason") != "rate_limit_exceeded" {
							t.Errorf("%s says %v", s.Name(), s.Attributes())
						}
						if strings.Contains(s.Status().Description, "secret") {
							t.Error("a span quotes an error")
						}
					}
					// A caller's mistake is an error of the caller alone.
					if failed := text(above, "error.type") != ""; failed != (answer != nil) || text(below, "error.type") != "" {
						t.Errorf("client %v, server %v", above.Attributes(), below.Attributes())
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
		t.Errorf("%d spans, the first %s", len(got), got[0].Name())
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
		if seen.SpanID() != span.SpanContext().SpanID() || !seen.IsSampled() {
			t.Errorf("%s: arrived as %v", name, seen)
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
				if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["request_id"] != want ||
					line["trace_id"] != wantTrace {
					t.Errorf("%s: with %q and trace %v the line is %s", name, id, wantTrace, &out)
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
		if len(points) != 1 || points[0].Count != 3 || !points[0].Attributes.Equals(&want) {
			t.Errorf("%s: %+v", m.Name, points)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"rpc.client.call.duration", "rpc.server.call.duration"}) {
		t.Errorf("metrics %v", names)
	}
}

func TestEveryCodeHasItsNameByTheSpecification(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		var back codes.Code
		if err := back.UnmarshalJSON([]byte(`"` + codeName(code) + `"`)); err != nil || back != code {
			t.Errorf("%v is written %s: %v", code, codeName(code), err)
		}
	}
	if codeName(99) != "UNKNOWN" {
		t.Errorf("an unknown code is written %s", codeName(99))
	}
}
