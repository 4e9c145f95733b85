package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"svc.internal/pkg/fault"
)

// script answers the calls of the test service.
type script struct {
	unary  func(ctx context.Context, req *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
	stream func(stream grpc.ServerStream) error
}

// The methods of the test service.
const (
	unaryMethod  = "/test.Script/Unary"
	serverMethod = "/test.Script/Server"
	clientMethod = "/test.Script/Client"
	bidiMethod   = "/test.Script/Bidi"
)

func scriptDesc() *grpc.ServiceDesc {
	run := func(srv any, stream grpc.ServerStream) error { return srv.(*script).stream(stream) }
	return &grpc.ServiceDesc{
		ServiceName: "test.Script", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(srv any, ctx context.Context, dec func(any) error,
			interceptor grpc.UnaryServerInterceptor) (any, error) {
			req := new(wrapperspb.BytesValue)
			if err := dec(req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, req any) (any, error) {
				return srv.(*script).unary(ctx, req.(*wrapperspb.BytesValue))
			}
			if interceptor == nil {
				return handle(ctx, req)
			}
			return interceptor(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: unaryMethod}, handle)
		}}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Server", ServerStreams: true, Handler: run},
			{StreamName: "Client", ClientStreams: true, Handler: run},
			{StreamName: "Bidi", ServerStreams: true, ClientStreams: true, Handler: run},
		},
	}
}

func register(server *script) func(grpc.ServiceRegistrar) {
	return func(r grpc.ServiceRegistrar) { r.RegisterService(scriptDesc(), server) }
}

func descOf(method string) *grpc.StreamDesc {
	for i := range scriptDesc().Streams {
		if desc := &scriptDesc().Streams[i]; "/test.Script/"+desc.StreamName == method {
			return desc
		}
	}
	return nil
}

// onBoth runs a test over both ways in which services are connected.
func onBoth(t *testing.T, server *script, test func(t *testing.T, conn grpc.ClientConnInterface)) {
	t.Helper()
	for name, conn := range connected(t, slog.New(slog.DiscardHandler), tracenoop.NewTracerProvider(), register(server)) {
		t.Run(name, func(t *testing.T) { test(t, conn) })
	}
}

// local is the test service in this process.
func local(t testing.TB, server *script) grpc.ClientConnInterface {
	t.Helper()
	in, err := NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	channel := NewInProcess(in)
	register(server)(channel)
	return channel.Client()
}

func open(ctx context.Context, t testing.TB, conn grpc.ClientConnInterface, method string) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(ctx, descOf(method), method)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func send(t testing.TB, stream interface{ SendMsg(any) error }, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := stream.SendMsg(wrapperspb.Bytes([]byte(text))); err != nil {
			t.Fatalf("send %q: %v", text, err)
		}
	}
}

// receive returns the texts up to the error that ends the stream.
func receive(stream interface{ RecvMsg(any) error }) (texts []string, err error) {
	for {
		m := wrapperspb.Bytes([]byte("left over"))
		if err := stream.RecvMsg(m); err != nil {
			return texts, err
		}
		texts = append(texts, string(m.GetValue()))
	}
}

func wantTexts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("messages: got %d, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("message %d: got %q, want %q", i, got[i], want[i])
		}
	}
}

func wantReason(t *testing.T, err error, want fault.Reason) {
	t.Helper()
	if !fault.Is(err, want) {
		t.Errorf("got the error %v, want the reason %s", err, want)
	}
}

func TestAUnaryCallIsAnsweredOnBothChannels(t *testing.T) {
	server := &script{unary: func(_ context.Context, req *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		if len(req.GetValue()) == 0 {
			return nil, nil //nolint:nilnil // as a handler by mistake does
		}
		return wrapperspb.Bytes(append([]byte("to "), req.GetValue()...)), nil
	}}
	onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
		for asked, want := range map[string]string{"question": "to question", "": ""} {
			resp := wrapperspb.Bytes([]byte("left over"))
			if err := conn.Invoke(t.Context(), unaryMethod, wrapperspb.Bytes([]byte(asked)), resp); err != nil {
				t.Fatal(err)
			}
			if got := string(resp.GetValue()); got != want {
				t.Errorf("%q: got %q, want %q", asked, got, want)
			}
		}
	})
}

func TestACallThatNobodyAnswersIsUnavailableOnBothChannels(t *testing.T) {
	onBoth(t, &script{}, func(t *testing.T, conn grpc.ClientConnInterface) {
		for _, method := range []string{"/test.Script/Other", "/test.Other/Unary"} {
			wantReason(t, conn.Invoke(t.Context(), method, wrapperspb.Bytes(nil), wrapperspb.Bytes(nil)),
				fault.ServiceUnavailable)
			stream, err := conn.NewStream(t.Context(), descOf(bidiMethod), method)
			if err == nil {
				_, err = receive(stream)
			}
			wantReason(t, err, fault.ServiceUnavailable)
		}
	})
}

func TestACallEndsWithItsCallersContextOnBothChannels(t *testing.T) {
	ended := make(chan struct{}, 1)
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		ended <- struct{}{}
		return ctx.Err()
	}
	server := &script{
		unary: func(ctx context.Context, _ *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			return nil, wait(ctx)
		},
		stream: func(stream grpc.ServerStream) error { return wait(stream.Context()) },
	}
	contexts := map[fault.Reason]func(context.Context) (context.Context, context.CancelFunc){
		fault.DeadlineExceeded: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 20*time.Millisecond)
		},
		fault.ClientClosed: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			stop := time.AfterFunc(20*time.Millisecond, func() { cancel(errors.New("a cause of its own")) })
			return ctx, func() { stop.Stop(); cancel(nil) }
		},
	}
	onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
		for reason, limit := range contexts {
			ctx, cancel := limit(t.Context())
			wantReason(t, conn.Invoke(ctx, unaryMethod, wrapperspb.Bytes(nil), wrapperspb.Bytes(nil)), reason)
			<-ended
			cancel()

			ctx, cancel = limit(t.Context())
			stream := open(ctx, t, conn, bidiMethod)
			_, err := receive(stream)
			wantReason(t, err, reason)
			<-ended
			if err := stream.SendMsg(wrapperspb.Bytes(nil)); !errors.Is(err, io.EOF) {
				t.Errorf("%s: a message after the end: got the error %v, want %v", reason, err, io.EOF)
			}
			<-ctx.Done()
			cancel()

			wantReason(t, conn.Invoke(ctx, unaryMethod, wrapperspb.Bytes(nil), wrapperspb.Bytes(nil)), reason)
			_, err = conn.NewStream(ctx, descOf(bidiMethod), bidiMethod)
			wantReason(t, err, reason)
		}
	})
}

func TestAnAnswerInProcessThatComesTooLateIsNotHeard(t *testing.T) {
	var log bytes.Buffer
	var cancel context.CancelCauseFunc
	server := &script{unary: func(ctx context.Context, req *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		cancel(errors.New("a cause of its own"))
		if len(req.GetValue()) > 0 {
			return req, nil
		}
		return nil, context.Cause(ctx)
	}}
	in, err := NewInterceptors(slog.New(slog.NewTextHandler(&log, nil)), noop.NewMeterProvider(),
		tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	channel := NewInProcess(in)
	register(server)(channel)
	for _, text := range []string{"answered", ""} {
		var ctx context.Context
		ctx, cancel = context.WithCancelCause(t.Context())
		err := channel.Client().Invoke(ctx, unaryMethod, wrapperspb.Bytes([]byte(text)), wrapperspb.Bytes(nil))
		wantReason(t, err, fault.ClientClosed)
		cancel(nil)
	}
	if log.Len() > 0 {
		t.Errorf("the log, where a handler returns why its caller left: got %q, want nothing", log.String())
	}
}

func TestTheContextOfAHandlerEndsWhenItReturnsOnBothChannels(t *testing.T) {
	handlers := make(chan context.Context, 1)
	server := &script{
		unary: func(ctx context.Context, req *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			handlers <- ctx
			return req, nil
		},
		stream: func(stream grpc.ServerStream) error {
			handlers <- stream.Context()
			return nil
		},
	}
	onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := conn.Invoke(ctx, unaryMethod, wrapperspb.Bytes(nil), wrapperspb.Bytes(nil)); err != nil {
			t.Fatal(err)
		}
		handler := <-handlers
		if _, ok := handler.Deadline(); !ok {
			t.Error("the handler's deadline: got none, want the caller's")
		}
		<-handler.Done()
		if _, err := receive(open(ctx, t, conn, bidiMethod)); !errors.Is(err, io.EOF) {
			t.Errorf("stream: got the error %v, want %v", err, io.EOF)
		}
		<-(<-handlers).Done()
		if ctx.Err() != nil {
			t.Errorf("the caller's context: got the error %v, want none", ctx.Err())
		}
	})
}

type callersKey struct{}

func TestOnlyMetadataPassesToAHandlerOnBothChannels(t *testing.T) {
	var name string
	var value any
	server := &script{unary: func(ctx context.Context, req *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		name, value = Operator(ctx), ctx.Value(callersKey{})
		return req, nil
	}}
	onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
		received := metadata.NewIncomingContext(context.WithValue(t.Context(), callersKey{}, "secret"),
			OperatorMetadata("another"))
		for want, ctx := range map[string]context.Context{
			"": received, "ada": metadata.NewOutgoingContext(received, OperatorMetadata("ada")),
		} {
			if err := conn.Invoke(ctx, unaryMethod, wrapperspb.Bytes(nil), wrapperspb.Bytes(nil)); err != nil {
				t.Fatal(err)
			}
			if name != want {
				t.Errorf("the operator of the call: got %q, want %q", name, want)
			}
			if value != nil {
				t.Errorf("a value of the caller: got %v, want none", value)
			}
		}
	})
}

func TestAContextDerivedInAHandlerEndsAtOnce(t *testing.T) {
	caller, cancel := context.WithCancel(t.Context())
	derived, stop := context.WithCancel(context.WithValue(handlerContext(caller), callersKey{}, 1))
	defer stop()
	cancel()
	if derived.Err() == nil {
		t.Error("got no error, want one at once, without a goroutine that waits for the caller's context")
	}
}

func TestAStreamEndsInOrderOnBothChannels(t *testing.T) {
	refusal := fault.New(fault.Exhausted, fault.RateLimitExceeded, "slow down").After(time.Second)
	for name, outcome := range map[string]error{"well": nil, "with a fault": refusal} {
		t.Run(name, func(t *testing.T) {
			server := &script{stream: func(stream grpc.ServerStream) error {
				texts, err := receive(stream)
				if !errors.Is(err, io.EOF) {
					t.Errorf("half-closed: got the error %v, want %v", err, io.EOF)
				}
				send(t, stream, texts...)
				return outcome
			}}
			onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
				stream := open(t.Context(), t, conn, bidiMethod)
				send(t, stream, "one", "two", "three")
				for range 2 {
					if err := stream.CloseSend(); err != nil {
						t.Fatal(err)
					}
				}
				texts, err := receive(stream)
				wantTexts(t, texts, "one", "two", "three")
				if err := stream.SendMsg(wrapperspb.Bytes(nil)); err == nil {
					t.Error("a message after CloseSend: got no error, want one")
				}
				if outcome == nil {
					if !errors.Is(err, io.EOF) {
						t.Errorf("got the error %v, want %v", err, io.EOF)
					}
					return
				}
				if f, ok := fault.As(err); !ok {
					t.Errorf("got the error %v, want a fault", err)
				} else if f.RetryAfter != time.Second {
					t.Errorf("wait: got %v, want %v", f.RetryAfter, time.Second)
				}
			})
		})
	}
}

func TestMessagesKeepTheirOrderOnBothChannels(t *testing.T) {
	const count = 5_000
	server := &script{stream: func(stream grpc.ServerStream) error {
		var m wrapperspb.BytesValue
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		for i := range count {
			if err := stream.SendMsg(wrapperspb.Bytes([]byte{byte(i), byte(i >> 8)})); err != nil {
				return err
			}
		}
		return nil
	}}
	onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
		stream := open(t.Context(), t, conn, serverMethod)
		send(t, stream, "begin")
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		texts, err := receive(stream)
		if !errors.Is(err, io.EOF) {
			t.Errorf("got the error %v, want %v", err, io.EOF)
		}
		if len(texts) != count {
			t.Fatalf("messages: got %d, want %d", len(texts), count)
		}
		for i, text := range texts {
			if text != string([]byte{byte(i), byte(i >> 8)}) {
				t.Fatalf("message %d: got %q, want its number", i, text)
			}
		}
	})
}

func TestTheAnswerToAStreamOfRequestsCountsOnlyWithoutAnErrorOnBothChannels(t *testing.T) {
	for want, outcome := range map[string]error{"sum": nil, "": fault.New(fault.Invalid, fault.InvalidValue, "no")} {
		server := &script{stream: func(stream grpc.ServerStream) error {
			if _, err := receive(stream); !errors.Is(err, io.EOF) {
				return err
			}
			if err := stream.SendMsg(wrapperspb.Bytes([]byte("sum"))); err != nil {
				return err
			}
			return outcome
		}}
		onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
			stream := open(t.Context(), t, conn, clientMethod)
			send(t, stream, "1", "2")
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			var m wrapperspb.BytesValue
			err := stream.RecvMsg(&m)
			if outcome != nil {
				wantReason(t, err, fault.InvalidValue)
			} else if err != nil {
				t.Errorf("got the error %v, want none", err)
			} else if got := string(m.GetValue()); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestAHandlerThatNobodyListensToEndsWithItsCallerOnBothChannels(t *testing.T) {
	full, ended := make(chan struct{}), make(chan error)
	server := &script{stream: func(stream grpc.ServerStream) error {
		piece := make([]byte, 64<<10)
		for i := 0; ; i++ {
			if i == streamBuffer {
				close(full)
			}
			if err := stream.SendMsg(wrapperspb.Bytes(piece)); err != nil {
				ended <- err
				return err
			}
		}
	}}
	onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
		full = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		stream := open(ctx, t, conn, serverMethod)
		send(t, stream, "begin")
		<-full
		cancel()
		if err := <-ended; err == nil {
			t.Error("the handler's message: got no error, want one")
		}
		_, err := receive(stream)
		wantReason(t, err, fault.ClientClosed)
	})
}

func TestAPanicInAStreamIsAnInternalFaultOnBothChannels(t *testing.T) {
	server := &script{stream: func(grpc.ServerStream) error { panic("boom with a secret") }}
	onBoth(t, server, func(t *testing.T, conn grpc.ClientConnInterface) {
		_, err := receive(open(t.Context(), t, conn, bidiMethod))
		wantReason(t, err, fault.InternalError)
	})
}

func TestAMessageAfterTheEndOfAStreamIsRefusedInProcess(t *testing.T) {
	left := make(chan grpc.ServerStream, 1)
	conn := local(t, &script{stream: func(stream grpc.ServerStream) error {
		left <- stream
		return nil
	}})
	stream := open(t.Context(), t, conn, bidiMethod)
	if _, err := receive(stream); !errors.Is(err, io.EOF) {
		t.Fatalf("got the error %v, want %v", err, io.EOF)
	}
	server := <-left
	<-server.Context().Done()
	if err := stream.SendMsg(wrapperspb.Bytes(nil)); !errors.Is(err, io.EOF) {
		t.Errorf("the caller's: got the error %v, want %v", err, io.EOF)
	}
	if err := server.SendMsg(wrapperspb.Bytes(nil)); err == nil {
		t.Error("the handler's: got no error, want one")
	}
	if err := server.RecvMsg(wrapperspb.Bytes(nil)); err == nil {
		t.Error("received by the handler: got no error, want one")
	}
}

func TestASenderInProcessWaitsForItsReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		conn := local(t, &script{stream: func(stream grpc.ServerStream) error {
			for sent < 100 {
				if err := stream.SendMsg(wrapperspb.Bytes(nil)); err != nil {
					return err
				}
				sent++
			}
			return nil
		}})
		stream := open(t.Context(), t, conn, serverMethod)
		synctest.Wait()
		if sent != streamBuffer {
			t.Errorf("sent before anything is received: got %d, want %d", sent, streamBuffer)
		}
		if texts, _ := receive(stream); len(texts) != 100 {
			t.Errorf("received: got %d, want 100", len(texts))
		}
	})
}

func TestAMessageOfAnotherTypeIsRefused(t *testing.T) {
	m := &measured{name: "test"}
	for name, c := range map[string]struct{ to, from any }{
		"another message": {&wrapperspb.StringValue{}, wrapperspb.Bytes([]byte("x"))},
		"text sent":       {&wrapperspb.StringValue{}, "text"},
		"text received":   {"text", wrapperspb.Bytes([]byte("x"))},
	} {
		if err := handOver(c.to, c.from, m); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

// What a receiver takes over is what was sent, in every kind of field, and an ordinary message to
// all that reads or writes it. Fields that it sets are its own.
func TestATakenMessageIsWhole(t *testing.T) {
	fields := map[string]any{"n": 1.5, "list": []any{"a", true, nil}, "sub": map[string]any{"k": "v"}}
	sent, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	want, got := proto.Clone(sent), &structpb.Struct{}
	if err := handOver(got, sent, &measured{name: "test"}); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if data, err := proto.Marshal(got); err != nil {
		t.Errorf("encode: got the error %v, want none", err)
	} else if len(data) == 0 {
		t.Error("encoded: got no bytes, want some")
	}
	got.Fields = nil
	if !proto.Equal(sent, want) {
		t.Errorf("the sender's, once the receiver's was changed: got %v, want %v", sent, want)
	}
}
