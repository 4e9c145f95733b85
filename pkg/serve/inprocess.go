package serve

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// InProcess connects services of one process. A call has the deadlines, faults, panics, spans
// and measurements that it would have over a socket. A unary handler runs on its caller's
// goroutine, and its caller waits until it returns. The handler of a stream has a goroutine.
//
// Messages are handed over, not copied. Each end has the fields of a message for itself, and
// both ends share what the fields point to: bytes, lists, maps and messages. So neither end
// changes these once a message was handed over, that is, since the call or SendMsg began or
// since a unary handler returned. An end that uses a buffer again sends a copy. Binaries that
// are built with the race detector check this rule (see handedOver).
//
// The handler's context has the deadline, the trace and the request id of its caller's
// context, what the caller sends as metadata, and no other value. It ends with the caller's
// context, and when the handler returns. Headers, trailers and call options are not supported.
type InProcess struct {
	in      Interceptors
	methods map[string]*method
}

// method is one method of a service of this process.
type method struct {
	service        any
	unary          grpc.MethodHandler // nil of a stream
	stream         *grpc.StreamDesc   // nil of a unary method
	client, server *measured
}

// NewInProcess makes a channel without services. The interceptors are those of NewInterceptors.
func NewInProcess(in Interceptors) *InProcess {
	return &InProcess{in: in, methods: map[string]*method{}}
}

// RegisterService adds a service. All services must be added before the first call. It panics
// if impl does not implement the service, or if the service was added before.
func (p *InProcess) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if want := reflect.TypeOf(desc.HandlerType).Elem(); !reflect.TypeOf(impl).Implements(want) {
		panic(fmt.Sprintf("serve: %T does not implement %s", impl, desc.ServiceName))
	}
	for i := range desc.Methods {
		p.add(desc, desc.Methods[i].MethodName, &method{service: impl, unary: desc.Methods[i].Handler})
	}
	for i := range desc.Streams {
		p.add(desc, desc.Streams[i].StreamName, &method{service: impl, stream: &desc.Streams[i]})
	}
}

func (p *InProcess) add(desc *grpc.ServiceDesc, name string, m *method) {
	full := "/" + desc.ServiceName + "/" + name
	if p.methods[full] != nil {
		panic("serve: " + full + " is registered twice")
	}
	m.client, m.server = p.in.client.side.method(full), p.in.server.side.method(full)
	p.methods[full] = m
}

// Client returns the calling end; generated clients take it as their connection.
func (p *InProcess) Client() grpc.ClientConnInterface { return conn{p} }

// conn is the calling end.
type conn struct{ *InProcess }

// Invoke makes a unary call.
func (c conn) Invoke(ctx context.Context, name string, req, reply any, _ ...grpc.CallOption) error {
	m := c.methods[name]
	if m == nil || m.unary == nil {
		return c.in.client.unknown(ctx, name)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	ctx, call := c.in.client.side.begin(ctx, m.client)
	wire := c.handle(ctx, m, req, reply)
	if err := ctx.Err(); err != nil {
		wire = statusOf(err) // as over a socket, whatever the handler has answered
	}
	return c.in.client.done(ctx, &call, wire)
}

// bounded returns a context for one call, with the default deadline unless ctx has one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}

// handle calls a unary handler and returns its error in the form in which it crosses the wire.
func (c conn) handle(ctx context.Context, m *method, req, reply any) (err error) {
	if ctx.Err() != nil {
		return nil // the caller has the reason
	}
	ctx, call := c.in.server.side.begin(handlerContext(ctx), m.server)
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		err = c.in.server.done(ctx, &call, caused(ctx, err))
	}()
	resp, err := m.unary(m.service, ctx, func(in any) error { return handOver(in, req, m.server) }, nil)
	if err != nil {
		return err
	}
	return handOver(reply, resp, m.server)
}

// unknown is the outcome of a call that no service of this process answers.
func (c *clientEnd) unknown(ctx context.Context, name string) error {
	ctx, call := c.side.begin(ctx, c.side.method(name))
	return c.done(ctx, &call, status.Errorf(codes.Unimplemented, "%s is not in this process", name))
}

// handlerContext returns the context of a handler whose caller has ctx.
func handlerContext(ctx context.Context) context.Context {
	sent, ok := metadata.FromOutgoingContext(ctx)
	ctx = isolated{ctx}
	if ok {
		ctx = metadata.NewIncomingContext(ctx, sent)
	}
	return ctx
}

// isolated is its caller's context without the values that stay in the caller's service, such
// as the operator that the caller works for.
type isolated struct{ context.Context }

// Value returns only what crosses a socket too.
func (c isolated) Value(key any) any {
	switch key {
	case keys.span, keys.cancel:
		return c.Context.Value(key)
	case keys.request:
		if id, ok := c.Context.Value(key).(string); ok && len(id) <= maxRequestID {
			return id
		}
	}
	return nil
}

// caused returns the error of a handler. The cause for which a caller gave up does not cross a
// socket: an error that is this cause is the end of the context.
func caused(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return ctx.Err()
}

// handOver moves a message to another message of its type.
func handOver(to, from any, m *measured) error {
	message, ok := from.(proto.Message)
	if !ok {
		return fmt.Errorf("%s: a message of type %T cannot be sent", m.name, from)
	}
	handedOver(m.name, message)
	return take(to, message)
}

// take moves the fields of from to another message of its type.
func take(to any, from proto.Message) error {
	source, target := reflect.ValueOf(from), reflect.ValueOf(to)
	if source.Type() != target.Type() || source.Kind() != reflect.Pointer {
		return fmt.Errorf("a message of type %T cannot be received as %T", from, to)
	}
	if source.IsNil() {
		target.Elem().SetZero() // which is how a socket sends it
		return nil
	}
	target.Elem().Set(source.Elem())
	return nil
}
