package serve

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
)

// streamBuffer is how many messages of one direction of a stream may wait for their receiver.
const streamBuffer = 1

var errHeaders = errors.New("a call within the process has no headers")

// stream is one stream. Messages that were sent before an end of the stream are received
// before it, unless the caller's context ends.
type stream struct {
	method   *method
	caller   context.Context // of the calling end
	ctx      context.Context // of the handler, for the handler alone
	over     <-chan struct{} // closed with ctx: when caller ends, and when the handler has returned
	requests chan proto.Message
	answers  chan proto.Message
	closed   chan struct{} // closed when the caller sends no more
	ended    chan struct{} // closed when the handler has returned
	err      error         // what the caller gets then; io.EOF when all is well
}

// NewStream begins a stream.
func (c conn) NewStream(
	ctx context.Context, _ *grpc.StreamDesc, name string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	m := c.methods[name]
	if m == nil || m.stream == nil {
		return nil, c.in.client.unknown(ctx, name)
	}
	ctx, call := c.in.client.side.begin(ctx, m.client)
	if err := ctx.Err(); err != nil {
		return nil, c.in.client.done(ctx, &call, statusOf(err))
	}
	handler, cancel := context.WithCancel(ctx)
	s := &stream{
		method: m, caller: ctx, ctx: handlerContext(handler), over: handler.Done(),
		requests: make(chan proto.Message, streamBuffer), answers: make(chan proto.Message, streamBuffer),
		closed: make(chan struct{}), ended: make(chan struct{}),
	}
	go func() {
		defer cancel()
		deepen()
		s.serve(c.in, &call)
	}()
	return &callerStream{stream: s}, nil
}

// deepen makes room for the handler on the stack of its new goroutine. Otherwise the stack would
// grow in steps, and each step would copy all frames that stand by then.
//
//go:noinline
func deepen() {
	var room [handlerStack]byte
	occupy(&room)
}

// handlerStack is how much stack most handlers of streams need, in bytes. It makes a stack of 8 KiB.
const handlerStack = 4 << 10

//go:noinline
func occupy(*[handlerStack]byte) {}

// serve runs the handler and ends the stream.
func (s *stream) serve(in Interceptors, caller *call) {
	wire := s.handle(in.server)
	if err := s.caller.Err(); err != nil {
		wire = statusOf(err)
	}
	if s.err = in.client.done(s.caller, caller, wire); s.err == nil {
		s.err = io.EOF
	}
	close(s.ended)
}

func (s *stream) handle(server *serverEnd) (err error) {
	var call call
	s.ctx, call = server.side.begin(s.ctx, s.method.server)
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		err = server.done(s.ctx, &call, caused(s.ctx, err))
	}()
	return s.method.stream.Handler(s.method.service, handlerStream{s})
}

// message checks what is sent.
func (s *stream) message(m any) (proto.Message, error) {
	message, ok := m.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%s: a message of type %T cannot be sent", s.method.server.name, m)
	}
	handedOver(s.method.server.name, message)
	return message, nil
}

// callerStream is the calling end of a stream.
type callerStream struct {
	*stream
	closing bool
}

// Context returns the context of the calling end.
func (s *callerStream) Context() context.Context { return s.caller }

// Header returns nothing.
func (s *callerStream) Header() (metadata.MD, error) { return nil, nil }

// Trailer returns nothing.
func (s *callerStream) Trailer() metadata.MD { return nil }

// CloseSend says that no message follows.
func (s *callerStream) CloseSend() error {
	if !s.closing {
		s.closing = true
		close(s.closed)
	}
	return nil
}

// SendMsg hands a message over and waits for room. io.EOF means that the stream has ended and
// that RecvMsg has the reason.
func (s *callerStream) SendMsg(m any) error {
	if s.closing {
		return status.Error(codes.Internal, "SendMsg is called after CloseSend")
	}
	message, err := s.message(m)
	if err != nil {
		return err
	}
	select {
	case <-s.over:
		return s.refused()
	default:
	}
	select {
	case s.requests <- message:
		return nil
	case <-s.over:
		return s.refused()
	}
}

// refused is the error of a message that comes after the end. The one message of a method that
// streams answers alone has none, because RecvMsg is called anyway.
func (s *callerStream) refused() error {
	if !s.method.stream.ClientStreams {
		return nil
	}
	return io.EOF
}

// RecvMsg receives the next message. Its errors are faults; io.EOF is the end.
func (s *callerStream) RecvMsg(m any) error {
	message, err := s.next()
	if err != nil {
		return err
	}
	if s.method.stream.ServerStreams {
		return take(m, message)
	}
	if _, err := s.next(); !errors.Is(err, io.EOF) {
		return err // the answer counts only if the handler returns no error
	}
	return take(m, message)
}

func (s *callerStream) next() (proto.Message, error) {
	select {
	case m := <-s.answers:
		return m, nil
	default:
	}
	select {
	case m := <-s.answers:
		return m, nil
	case <-s.ended:
	case <-s.caller.Done():
		return nil, fault.FromError(statusOf(s.caller.Err()))
	}
	select {
	case m := <-s.answers: // the handler's last
		return m, nil
	default:
		return nil, s.err
	}
}

// handlerStream is the answering end of a stream.
type handlerStream struct{ *stream }

// Context returns the handler's context.
func (s handlerStream) Context() context.Context { return s.ctx }

// SetHeader fails.
func (handlerStream) SetHeader(metadata.MD) error { return errHeaders }

// SendHeader fails.
func (handlerStream) SendHeader(metadata.MD) error { return errHeaders }

// SetTrailer does nothing.
func (handlerStream) SetTrailer(metadata.MD) {}

// SendMsg hands a message over and waits for room.
func (s handlerStream) SendMsg(m any) error {
	message, err := s.message(m)
	if err != nil {
		return err
	}
	select {
	case <-s.over:
		return statusOf(s.ctx.Err())
	default:
	}
	select {
	case s.answers <- message:
		return nil
	case <-s.over:
		return statusOf(s.ctx.Err())
	}
}

// RecvMsg receives the next message; io.EOF when the caller sends no more.
func (s handlerStream) RecvMsg(m any) error {
	select {
	case message := <-s.requests:
		return take(m, message)
	default:
	}
	select {
	case message := <-s.requests:
		return take(m, message)
	case <-s.over:
		return statusOf(s.ctx.Err())
	case <-s.closed:
	}
	select {
	case message := <-s.requests: // the caller's last
		return take(m, message)
	default:
		return io.EOF
	}
}
