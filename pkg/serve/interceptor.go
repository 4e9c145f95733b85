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

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/fault"
)

// DefaultTimeout is the deadline of a unary call that has none.
const DefaultTimeout = 10 * time.Second

// Interceptors are what every call passes through on both ends: trace context and request
// id, deadlines, faults as errors, recovered panics, one log line for each fault of ours,
// a duration by method and code, and a span where the trace is recorded. No call begins a
// trace of its own.
type Interceptors struct {
	UnaryServer  grpc.UnaryServerInterceptor
	StreamServer grpc.StreamServerInterceptor
	UnaryClient  grpc.UnaryClientInterceptor
	StreamClient grpc.StreamClientInterceptor

	// InProcess does what they do without being called through them.
	server *serverEnd
	client *clientEnd
}

// Classify finds the fault in a handler's error that names none, for example in a
// driver's. It returns nil for an error that it does not know.
type Classify func(err error) *fault.Fault

// NewInterceptors makes the interceptors of one process. An error of a handler that is
// no fault becomes the fault that the first of classify finds in it.
func NewInterceptors(
	log *slog.Logger, meters metric.MeterProvider, traces trace.TracerProvider, classify ...Classify,
) (Interceptors, error) {
	tracer := traces.Tracer(scope)
	server, err := newSide(meters, tracer, "server", trace.SpanKindServer)
	if err != nil {
		return Interceptors{}, err
	}
	client, err := newSide(meters, tracer, "client", trace.SpanKindClient)
	if err != nil {
		return Interceptors{}, err
	}
	s, c := &serverEnd{side: server, log: log, classify: classify}, &clientEnd{side: client}
	return Interceptors{
		UnaryServer: s.unary, StreamServer: s.stream, UnaryClient: c.unary, StreamClient: c.stream, server: s, client: c,
	}, nil
}

type serverEnd struct {
	side     *side
	log      *slog.Logger
	classify []Classify
}

func (s *serverEnd) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (resp any, err error) {
	ctx, call := s.side.begin(received(ctx), s.side.method(info.FullMethod))
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		err = s.done(ctx, &call, err)
	}()
	return handler(ctx, req)
}

func (s *serverEnd) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) (err error) {
	ctx, call := s.side.begin(received(stream.Context()), s.side.method(info.FullMethod))
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		err = s.done(ctx, &call, err)
	}()
	return handler(srv, &tracedStream{ServerStream: stream, ctx: ctx})
}

type tracedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the stream's context with the caller's trace and request id.
func (s *tracedStream) Context() context.Context { return s.ctx }

func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

// done ends a call, logs it when the fault is ours, and returns the error in the form in
// which it crosses the wire.
func (s *serverEnd) done(ctx context.Context, call *call, err error) error {
	told := s.named(err)
	wire := fault.ToStatus(told)
	s.side.end(ctx, call, wire, told)
	if err == nil {
		return nil
	}
	if fault.Is(err, fault.CallerNotAllowed) {
		s.log.WarnContext(ctx, "caller refused", "method", call.name, "error", err)
	} else if f, ok := fault.As(err); ok && f.Kind != fault.Internal {
		s.log.DebugContext(ctx, "call refused", "method", call.name, "error", err)
	} else if errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		s.log.DebugContext(ctx, "call canceled", "method", call.name)
	} else {
		s.log.ErrorContext(ctx, "call failed", "method", call.name, "error", err)
	}
	return wire
}

// named returns the fault that classify finds in an error that is none, and every other
// error as it is. The log keeps the error itself, because the fault is then ours.
func (s *serverEnd) named(err error) error {
	if _, ok := fault.As(err); err == nil || ok {
		return err
	}
	for _, classify := range s.classify {
		if found := classify(err); found != nil {
			return found
		}
	}
	return err
}

type clientEnd struct{ side *side }

func (c *clientEnd) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	ctx, call := c.side.begin(ctx, c.side.method(method))
	return c.done(ctx, &call, invoke(sent(ctx), method, req, reply, cc, opts...))
}

// done ends a call and returns its error as the fault that it was at the server.
func (c *clientEnd) done(ctx context.Context, call *call, wire error) error {
	err := fault.FromError(wire)
	c.side.end(ctx, call, wire, err)
	return err
}

func (c *clientEnd) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, call := c.side.begin(ctx, c.side.method(method))
	stream, err := open(sent(ctx), desc, cc, method, opts...)
	if err != nil {
		return nil, c.done(ctx, &call, err)
	}
	s := &clientStream{ClientStream: stream, single: !desc.ServerStreams}
	s.end = func(wire error) {
		s.once.Do(func() { _ = c.done(ctx, &call, wire) })
	}
	// A caller may abandon a stream instead of reading it to its end. It must then cancel
	// the context, as gRPC demands.
	s.forget = context.AfterFunc(ctx, func() { s.end(statusOf(ctx.Err())) })
	return s, nil
}

// clientStream restores faults from the errors of a stream (io.EOF stays) and notices its
// end.
type clientStream struct {
	grpc.ClientStream
	single bool // the server answers once
	once   sync.Once
	end    func(wire error)
	forget func() bool
}

// RecvMsg receives the next message.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil && s.single, errors.Is(err, io.EOF):
		s.ended(nil)
	case err != nil:
		s.ended(err)
		return fault.FromError(err)
	}
	return err
}

func (s *clientStream) ended(wire error) {
	s.forget()
	s.end(wire)
}

// SendMsg sends a message; io.EOF means that RecvMsg has the reason.
func (s *clientStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fault.FromError(err)
}
