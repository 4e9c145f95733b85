package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// flood answers with more than its reader takes, until the server stops.
type flood struct {
	grpc_health_v1.UnimplementedHealthServer
	stop context.Context
}

var errFloodEnds = errors.New("the server stops")

func (f flood) Watch(
	_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	if err := stream.Send(&grpc_health_v1.HealthCheckResponse{}); err != nil {
		return err
	}
	much := &grpc_health_v1.HealthCheckResponse{}
	// A field that nobody knows, of a megabyte: the reader's window has less room.
	much.ProtoReflect().SetUnknown(append([]byte{0x7a, 0x80, 0x80, 0x40}, make([]byte, 1<<20)...))
	go func() { _ = stream.Send(much) }()
	<-f.stop.Done()
	return errFloodEnds
}

// Without the drain time's end, the test would not end.
func TestAStopDoesNotWaitForAReaderWhoTakesNoMoreOfACallThatHasEnded(t *testing.T) {
	t.Parallel()
	in, err := NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- GRPC(ctx, lis, GRPCConfig{Interceptors: in, DrainTimeout: time.Hour}, func(r grpc.ServiceRegistrar) {
			grpc_health_v1.RegisterHealthServer(r, flood{stop: ctx})
		})
	}()
	conn, err := Dial(Target{Service: "test", Addresses: []string{lis.Addr().String()}, Exactly: true}, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the server ended with %v, want no error", err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("after the stop: got a message, want an error")
	}
}

func TestARequestHearsOfTheStopBeforeItsOwnEnd(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	done, got := make(chan error), make(chan error, 1)
	go func() {
		done <- HTTP(ctx, lis, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(started)
			<-Stopping(r.Context()).Done()
			got <- r.Context().Err()
		}), HTTPConfig{Log: slog.New(slog.DiscardHandler), DrainTimeout: time.Hour})
	}()
	go func() {
		if resp, err := http.Get("http://" + lis.Addr().String()); err == nil {
			resp.Body.Close()
		}
	}()
	<-started
	stop()
	if err := <-got; err != nil {
		t.Errorf("the request's context: got %v, want no end yet", err)
	}
	if err := <-done; err != nil {
		t.Errorf("the server ended with %v, want no error", err)
	}
	if Stopping(t.Context()).Done() != nil {
		t.Error("outside of a server: got a context that may end, want one that does not")
	}
}
