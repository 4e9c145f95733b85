package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/telemetry"
)

// DefaultTimeout is the deadline of a unary call that brings none.
const DefaultTimeout = 10 * time.Second

const traceparentKey = "traceparent"

// Interceptors are what every call passes through on both ends: trace context,
// deadlines, faults for errors, panics caught, one log line for each fault of
// our own, and a duration by method and code.
type Interceptors struct {
	UnaryServer  grpc.UnaryServerInterceptor
	StreamServer grpc.StreamServerInterceptor
	UnaryClient  grpc.UnaryClientInterceptor
	StreamClient grpc.StreamClientInterceptor
}

// NewInterceptors makes the interceptors of one process.
func NewInterceptors(log *slog.Logger, meters metric.MeterProvider) (Interceptors, error) {
	duration, err := meters.Meter("svc.internal/pkg/serve").Float64Histogram("rpc.server.call.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Duration of gRPC calls by method and code."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60))
	if err != nil {
		return Interceptors{}, fmt.Errorf("make the call histogram: %w", err)
	}
	o := &observer{log: log, duration: duration}
	return Interceptors{
		UnaryServer:  o.unaryServer,
		StreamServer: o.streamServer,
		UnaryClient:  unaryClient,
		StreamClient: streamClient,
	}, nil
}

type observer struct {
	log      *slog.Logger
	duration metric.Float64Histogram
	// sets holds one measurement option for each method and code; both are
	// bounded by the contracts.
	sets sync.Map
}

type setKey struct {
	method string
	code   string
}

func (o *observer) unaryServer(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	ctx = withTrace(ctx)
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		err = o.done(ctx, info.FullMethod, start, err)
	}()
	return handler(ctx, req)
}

func (o *observer) streamServer(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	start := time.Now()
	ctx := withTrace(stream.Context())
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		err = o.done(ctx, info.FullMethod, start, err)
	}()
	return handler(srv, &tracedStream{ServerStream: stream, ctx: ctx})
}

type tracedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context is the stream's context with the caller's trace.
func (s *tracedStream) Context() context.Context { return s.ctx }

func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

// done measures a call, logs it when the fault is ours, and gives the error
// the form in which it crosses the wire.
func (o *observer) done(ctx context.Context, method string, start time.Time, err error) error {
	wire := fault.ToStatus(err)
	code := status.Code(wire).String()
	set, ok := o.sets.Load(setKey{method, code})
	if !ok {
		set, _ = o.sets.LoadOrStore(setKey{method, code}, metric.WithAttributeSet(attribute.NewSet(
			attribute.String("rpc.method", method), attribute.String("rpc.response.status_code", code))))
	}
	o.duration.Record(ctx, time.Since(start).Seconds(), set.(metric.MeasurementOption))
	if err == nil {
		return nil
	}
	if f, ok := fault.As(err); ok && f.Kind != fault.Internal {
		o.log.DebugContext(ctx, "call refused", "method", method, "error", err)
	} else if errors.Is(err, context.Canceled) {
		o.log.DebugContext(ctx, "call canceled", "method", method)
	} else {
		o.log.ErrorContext(ctx, "call failed", "method", method, "error", err)
	}
	return wire
}

func withTrace(ctx context.Context) context.Context {
	if values := metadata.ValueFromIncomingContext(ctx, traceparentKey); len(values) > 0 {
		return telemetry.WithTraceparent(ctx, values[0])
	}
	return ctx
}

func traced(ctx context.Context) context.Context {
	if tp := telemetry.Traceparent(ctx); tp != "" {
		return metadata.AppendToOutgoingContext(ctx, traceparentKey, tp)
	}
	return ctx
}

func unaryClient(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	return fault.FromError(invoke(traced(ctx), method, req, reply, cc, opts...))
}

func streamClient(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(traced(ctx), desc, cc, method, opts...)
	if err != nil {
		return nil, fault.FromError(err)
	}
	return &faultStream{stream}, nil
}

// faultStream restores faults from what a stream returns; io.EOF stays.
type faultStream struct{ grpc.ClientStream }

// RecvMsg receives the next message.
func (s *faultStream) RecvMsg(m any) error { return streamError(s.ClientStream.RecvMsg(m)) }

// SendMsg sends a message; io.EOF means that RecvMsg has the reason.
func (s *faultStream) SendMsg(m any) error { return streamError(s.ClientStream.SendMsg(m)) }

func streamError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fault.FromError(err)
}
