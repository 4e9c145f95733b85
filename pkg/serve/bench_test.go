package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/wrapperspb"
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

// BenchmarkStreamInProcess is one small message there and back.
func BenchmarkStreamInProcess(b *testing.B) {
	conn := local(b, &script{stream: func(stream grpc.ServerStream) error {
		for {
			m := new(wrapperspb.BytesValue)
			if err := stream.RecvMsg(m); err != nil {
				return err
			}
			if err := stream.SendMsg(&wrapperspb.BytesValue{Value: bytes.Clone(m.GetValue())}); err != nil {
				return err
			}
		}
	}})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	stream := open(ctx, b, conn, bidiMethod)
	content := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		err := errors.Join(stream.SendMsg(wrapperspb.Bytes(content)), stream.RecvMsg(new(wrapperspb.BytesValue)))
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStreamOfADeepHandler is one stream whose handler needs about as much stack as a dispatch does.
func BenchmarkStreamOfADeepHandler(b *testing.B) {
	conn := local(b, &script{stream: func(stream grpc.ServerStream) error { return descend(stream, 16) }})
	b.ReportAllocs()
	for b.Loop() {
		stream := open(b.Context(), b, conn, bidiMethod)
		if err := stream.RecvMsg(new(wrapperspb.BytesValue)); !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}

// descend needs about 300 bytes of stack for each level.
//
//go:noinline
func descend(stream grpc.ServerStream, levels int) error {
	var room [256]byte
	room[levels] = 1
	if levels == 0 {
		return stream.Context().Err()
	}
	err := descend(stream, levels-1)
	if room[levels] != 1 {
		return io.ErrUnexpectedEOF
	}
	return err
}
