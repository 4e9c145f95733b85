package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echo answers with what it was asked, and scribbles over all that it holds once
// it has answered, as a server may that uses its messages again.
type echo struct{ kept *wrapperspb.BytesValue }

func scribble(m *wrapperspb.BytesValue) {
	for i := range m.GetValue() {
		m.Value[i] = '!'
	}
}

func (e *echo) unary(_ context.Context, req *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	e.kept = &wrapperspb.BytesValue{Value: bytes.Clone(req.GetValue())}
	scribble(req)
	return e.kept, nil
}

func (e *echo) stream(stream grpc.ServerStream) error {
	var again wrapperspb.BytesValue // one message for all that is sent
	for {
		var m wrapperspb.BytesValue
		if err := stream.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		again.Value = append(again.Value[:0], m.GetValue()...)
		scribble(&m)
		if err := stream.SendMsg(&again); err != nil {
			return err
		}
		scribble(&again)
	}
}

func echoDesc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(srv any, ctx context.Context, dec func(any) error,
			_ grpc.UnaryServerInterceptor) (any, error) {
			var req wrapperspb.BytesValue
			if err := dec(&req); err != nil {
				return nil, err
			}
			return srv.(*echo).unary(ctx, &req)
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, ClientStreams: true,
			Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*echo).stream(stream) }}},
	}
}

func echoClient(t testing.TB, server *echo) grpc.ClientConnInterface {
	t.Helper()
	in, err := NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	local := NewInProcess(in)
	local.RegisterService(echoDesc(), server)
	return local.Client()
}

// Neither end sees what the other does with a message once it has sent or
// received it; the race detector is the judge as much as the bytes are.
func TestMessagesInProcessAreNotShared(t *testing.T) {
	server := &echo{}
	conn := echoClient(t, server)
	t.Run("unary", func(t *testing.T) {
		req, resp := &wrapperspb.BytesValue{Value: []byte("question")}, &wrapperspb.BytesValue{Value: []byte("left over")}
		if err := conn.Invoke(t.Context(), "/test.Echo/Unary", req, resp); err != nil {
			t.Fatal(err)
		}
		scribble(server.kept)
		if string(req.GetValue()) != "question" {
			t.Errorf(`asked: req.GetValue(): got %q, want "question"`, string(req.GetValue()))
		} else if string(resp.GetValue()) != "question" {
			t.Errorf(`resp.GetValue(): got %q, want "question"`, string(resp.GetValue()))
		}
	})
	t.Run("stream", func(t *testing.T) {
		stream, err := conn.NewStream(t.Context(), &echoDesc().Streams[0], "/test.Echo/Stream")
		if err != nil {
			t.Fatal(err)
		}
		var got []*wrapperspb.BytesValue
		var req wrapperspb.BytesValue // one message for all that is sent
		for _, text := range []string{"one", "two", "three"} {
			req.Value = append(req.Value[:0], text...)
			if err := stream.SendMsg(&req); err != nil {
				t.Fatal(err)
			}
			scribble(&req)
			m := &wrapperspb.BytesValue{Value: []byte("left over")}
			if err := stream.RecvMsg(m); err != nil {
				t.Fatal(err)
			}
			got = append(got, m)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&req); !errors.Is(err, io.EOF) {
			t.Errorf("the stream ends: got the error %v, want %v", err, io.EOF)
		}
		for i, want := range []string{"one", "two", "three"} {
			if string(got[i].GetValue()) != want {
				t.Errorf("message %d: got %q, want %q", i, string(got[i].GetValue()), want)
			}
		}
	})
}

func TestAMessageOfAnotherTypeIsRefused(t *testing.T) {
	sent, err := cloner{}.Clone(wrapperspb.Bytes([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]any{"of a stream": sent, "of a call": wrapperspb.Bytes([]byte("x")), "none": "text"} {
		if err := (cloner{}).Copy(&wrapperspb.StringValue{}, in); err == nil {
			t.Errorf("a message %s was taken", name)
		}
	}
	if err := (cloner{}).Copy("text", sent); err == nil {
		t.Error("a message was received as text")
	}
	if _, err := (cloner{}).Clone("text"); err == nil {
		t.Error("text was sent")
	}
}

// What a receiver takes over is what was sent, in every kind of field, and an
// ordinary message to all that reads or writes it.
func TestATakenMessageIsWhole(t *testing.T) {
	want, err := structpb.NewStruct(map[string]any{"n": 1.5, "list": []any{"a", true, nil},
		"sub": map[string]any{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := cloner{}.Clone(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &structpb.Struct{}
	if err := (cloner{}).Copy(got, sent); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got.Fields["n"] = structpb.NewStringValue("changed")
	data, err := proto.Marshal(got)
	switch {
	case err != nil:
		t.Errorf("%d bytes; the sender has %v: got the error %v, want none", len(data), want, err)
	case len(data) == 0:
		t.Errorf("%d bytes, %v; the sender has %v: len(data): got 0, want at least 1", len(data), err, want)
	case want.GetFields()["n"].GetNumberValue() != 1.5:
		t.Errorf(`%d bytes, %v; the sender has %v: want.GetFields()["n"].GetNumberValue(): got %v, want 1.5`, len(data), err,
			want, want.GetFields()["n"].GetNumberValue())
	}
}

// BenchmarkStreamInProcess is one small message there and back.
func BenchmarkStreamInProcess(b *testing.B) {
	stream, err := echoClient(b, &echo{}).NewStream(b.Context(), &echoDesc().Streams[0], "/test.Echo/Stream")
	if err != nil {
		b.Fatal(err)
	}
	m := wrapperspb.Bytes(make([]byte, 200))
	b.ReportAllocs()
	for b.Loop() {
		if err := errors.Join(stream.SendMsg(m), stream.RecvMsg(m)); err != nil {
			b.Fatal(err)
		}
	}
}
