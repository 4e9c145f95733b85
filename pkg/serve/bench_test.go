package serve

import (
	"context"
	"log/slog"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// BenchmarkUnaryInProcess is what a call costs with all that the interceptors
// do, in a trace that is not recorded and in a trace that is recorded.
func BenchmarkUnaryInProcess(b *testing.B) {
	for name, option := range map[string]sdktrace.TracerProviderOption{
		"unrecorded": sdktrace.WithSampler(sdktrace.NeverSample()),
		"recorded":   sdktrace.WithBatcher(tracetest.NewNoopExporter()),
	} {
		b.Run(name, func(b *testing.B) {
			traces := sdktrace.NewTracerProvider(option)
			in, err := NewInterceptors(slog.New(slog.DiscardHandler),
				sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), traces)
			if err != nil {
				b.Fatal(err)
			}
			channel := NewInProcess(in)
			grpc_health_v1.RegisterHealthServer(channel, &checker{check: func(context.Context) error { return nil }})
			client := grpc_health_v1.NewHealthClient(channel.Client())
			ctx, span := traces.Tracer("bench").Start(b.Context(), "request")
			defer span.End()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
