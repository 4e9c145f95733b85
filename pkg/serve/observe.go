package serve

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/telemetry"
)

const scope = "svc.internal/pkg/serve"

// Metadata that a call carries beside its message.
const (
	traceparentKey = "traceparent"
	requestIDKey   = "x-request-id"
	// maxRequestID bounds a caller's request id, in bytes.
	maxRequestID = 64
)

// Attributes by the conventions for RPC.
const (
	systemAttr = attribute.Key("rpc.system.name")
	methodAttr = attribute.Key("rpc.method")
	statusAttr = attribute.Key("rpc.response.status_code")
	errorAttr  = attribute.Key("error.type")
	// reasonAttr is the fault's reason, from fault's closed list.
	reasonAttr = attribute.Key("svc.reason")
)

// side measures one end of all calls: rate, errors and duration by method and code, and a
// span where the trace is recorded.
type side struct {
	kind     trace.SpanKind
	tracer   trace.Tracer
	duration metric.Float64Histogram
	// methods has every method that was called; the contracts bound it. It is replaced and
	// never changed, because nearly every call only reads it.
	methods atomic.Pointer[map[string]*measured]
}

// measured is a method as one end measures it.
type measured struct {
	name string // service/method
	// options has the options of a measurement by code, once there was one.
	options [codeCount]atomic.Pointer[[]metric.RecordOption]
}

// codeCount is how many codes there are.
const codeCount = int(codes.Unauthenticated) + 1

func newSide(meters metric.MeterProvider, tracer trace.Tracer, name string, kind trace.SpanKind) (*side, error) {
	duration, err := meters.Meter(scope).Float64Histogram("rpc."+name+".call.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Duration of gRPC calls by method and code, seen by the "+name+"."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60))
	if err != nil {
		return nil, fmt.Errorf("make the %s's call histogram: %w", name, err)
	}
	s := &side{kind: kind, tracer: tracer, duration: duration}
	s.methods.Store(&map[string]*measured{})
	return s, nil
}

// method returns the method with a full name, /service/method.
func (s *side) method(fullName string) *measured {
	for {
		known := s.methods.Load()
		if m, ok := (*known)[fullName]; ok {
			return m
		}
		more := maps.Clone(*known)
		more[fullName] = &measured{name: strings.TrimPrefix(fullName, "/")}
		s.methods.CompareAndSwap(known, &more)
	}
}

// call is one call under way.
type call struct {
	*measured
	start time.Time
	span  trace.Span // nil when the trace is not recorded
}

// begin starts a call. Only a recorded trace costs a span. Its code is kept apart from
// all other calls, even from their stacks: the handler of a stream begins on a new
// goroutine, whose small stack is expensive to grow.
func (s *side) begin(ctx context.Context, m *measured) (context.Context, call) {
	c := call{measured: m, start: time.Now()}
	if !telemetry.Sampled(ctx) {
		return ctx, c
	}
	ctx, c.span = s.startSpan(ctx, &c)
	return ctx, c
}

// startSpan starts the span of a call. Where this process records none, the trace passes
// through unchanged.
func (s *side) startSpan(ctx context.Context, c *call) (context.Context, trace.Span) {
	spanCtx, span := s.tracer.Start(ctx, c.name, trace.WithSpanKind(s.kind), trace.WithTimestamp(c.start),
		trace.WithAttributes(systemAttr.String("grpc"), methodAttr.String(c.name)))
	if !span.IsRecording() {
		return ctx, nil
	}
	return spanCtx, span
}

// end measures a call. wire is its error as sent, err as we know it.
func (s *side) end(ctx context.Context, c *call, wire, err error) {
	code := status.Code(wire)
	s.duration.Record(ctx, time.Since(c.start).Seconds(), s.options(c.measured, code)...)
	if c.span != nil {
		s.endSpan(c.span, code, err)
	}
}

func (s *side) endSpan(span trace.Span, code codes.Code, err error) {
	span.SetAttributes(statusAttr.String(codeName(code)))
	if s.failed(code) {
		span.SetAttributes(errorAttr.String(codeName(code)))
		span.SetStatus(otelcodes.Error, "")
	}
	if f, ok := fault.As(err); ok {
		span.SetAttributes(reasonAttr.String(string(f.Reason)))
	}
	span.End()
}

// options returns the options of a method's measurement. A code that gRPC does not have counts
// as unknown.
func (s *side) options(m *measured, code codes.Code) []metric.RecordOption {
	if int(code) >= codeCount {
		code = codes.Unknown
	}
	if options := m.options[code].Load(); options != nil {
		return *options
	}
	attrs := []attribute.KeyValue{systemAttr.String("grpc"), methodAttr.String(m.name), statusAttr.String(codeName(code))}
	if s.failed(code) {
		attrs = append(attrs, errorAttr.String(codeName(code)))
	}
	options := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
	m.options[code].Store(&options)
	return options
}

// failed reports whether a code is an error of this side. A server that refuses a
// caller's mistake has done its work.
func (s *side) failed(code codes.Code) bool {
	if s.kind == trace.SpanKindClient {
		return code != codes.OK
	}
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	default:
		return false
	}
}

// codeNames are the codes as gRPC's specification writes them.
var codeNames = [...]string{
	codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
	codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}

func codeName(code codes.Code) string {
	if int(code) < len(codeNames) {
		return codeNames[code]
	}
	return "UNKNOWN"
}

func statusOf(err error) error { return status.FromContextError(err).Err() }

// received returns the context of an incoming call, with its caller's trace and request
// id.
func received(ctx context.Context) context.Context {
	if id := incoming(ctx, requestIDKey); id != "" && len(id) <= maxRequestID {
		ctx = telemetry.WithRequestID(ctx, id)
	}
	return telemetry.WithTraceparent(ctx, incoming(ctx, traceparentKey))
}

func incoming(ctx context.Context, key string) string {
	if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// sent returns the context of an outgoing call.
func sent(ctx context.Context) context.Context {
	traceparent, id := telemetry.Traceparent(ctx), telemetry.RequestID(ctx)
	switch {
	case traceparent != "" && id != "":
		return metadata.AppendToOutgoingContext(ctx, traceparentKey, traceparent, requestIDKey, id)
	case traceparent != "":
		return metadata.AppendToOutgoingContext(ctx, traceparentKey, traceparent)
	case id != "":
		return metadata.AppendToOutgoingContext(ctx, requestIDKey, id)
	default:
		return ctx
	}
}
