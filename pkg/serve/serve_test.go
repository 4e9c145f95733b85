package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"svc.internal/pkg/fault"
)

func waitForStop(name string, order *[]string, mu *sync.Mutex) Part {
	return Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		*order = append(*order, name)
		return nil
	}}
}

func TestPartsStopInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- Run(ctx, waitForStop("a", &order, &mu), waitForStop("b", &order, &mu), waitForStop("c", &order, &mu))
		}()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(order, []string{"c", "b", "a"}) {
			t.Errorf("stopped in order: got %q, want %q", order, []string{"c", "b", "a"})
		}
	})
}

func TestAPartThatEndsStopsTheOthersAndIsNamed(t *testing.T) {
	var mu sync.Mutex
	var order []string
	broken := errors.New("no more")
	err := Run(t.Context(), waitForStop("steady", &order, &mu),
		Part{Name: "fragile", Run: func(context.Context) error { return broken }})
	if !errors.Is(err, broken) {
		t.Errorf("got the error %v, want %v", err, broken)
	} else if !strings.Contains(err.Error(), "fragile") {
		t.Errorf(`got the error %q, want "fragile" in it`, err)
	}
	if !slices.Equal(order, []string{"steady"}) {
		t.Errorf("stopped: got %q, want %q", order, []string{"steady"})
	}
}

func TestAPartThatDoesNotStopIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := Run(ctx, Part{Name: "stubborn", StopTimeout: time.Second, Run: func(context.Context) error {
			<-release
			return nil
		}})
		if err == nil {
			t.Error("got no error, want one")
		} else if !strings.Contains(err.Error(), "stubborn") {
			t.Errorf(`got the error %q, want "stubborn" in it`, err)
		}
		close(release)
	})
}

// checker answers health checks by what a test gives it.
type checker struct {
	grpc_health_v1.UnimplementedHealthServer
	check func(ctx context.Context) error
}

func (c *checker) Check(
	ctx context.Context, _ *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, c.check(ctx)
}

func (c *checker) Watch(
	_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	return c.check(stream.Context())
}

// channels are the two ways in which services are connected.
func channels(t *testing.T, server *checker) map[string]grpc.ClientConnInterface {
	t.Helper()
	return channelsWith(t, server, slog.New(slog.DiscardHandler), tracenoop.NewTracerProvider())
}

// channelsWith are channels whose calls are logged and traced.
func channelsWith(
	t *testing.T, server *checker, log *slog.Logger, traces trace.TracerProvider, classify ...Classify,
) map[string]grpc.ClientConnInterface {
	t.Helper()
	return connected(t, log, traces, func(r grpc.ServiceRegistrar) { grpc_health_v1.RegisterHealthServer(r, server) },
		classify...)
}

// connected are the two ways to call the services that register adds.
func connected(
	t *testing.T, log *slog.Logger, traces trace.TracerProvider, register func(grpc.ServiceRegistrar),
	classify ...Classify,
) map[string]grpc.ClientConnInterface {
	t.Helper()
	in, err := NewInterceptors(log, noop.NewMeterProvider(), traces, classify...)
	if err != nil {
		t.Fatal(err)
	}
	local := NewInProcess(in)
	register(local)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- GRPC(ctx, lis, GRPCConfig{Interceptors: in}, register) }()
	conn, err := Dial(Target{Service: "test", Addresses: []string{lis.Addr().String()}, Exactly: true}, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return map[string]grpc.ClientConnInterface{"in process": local.Client(), "socket": conn}
}

func TestFaultsAndTracesCrossBothChannels(t *testing.T) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer("test")
	var seen trace.SpanContext
	server := &checker{check: func(ctx context.Context) error {
		seen = trace.SpanContextFromContext(ctx)
		return fault.New(fault.Exhausted, fault.RateLimitExceeded, "slow down").After(time.Second)
	}}
	for name, conn := range channels(t, server) {
		t.Run(name, func(t *testing.T) {
			ctx, span := tracer.Start(t.Context(), "call")
			client := grpc_health_v1.NewHealthClient(conn)
			_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			switch f, ok := fault.As(err); {
			case !ok:
				t.Errorf("unary: got the error %v, want a fault", err)
			case f.Reason != fault.RateLimitExceeded:
				t.Errorf("unary: f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
			case f.RetryAfter != time.Second:
				t.Errorf("unary: f.RetryAfter: got %v, want %v", f.RetryAfter, time.Second)
			}
			if seen.TraceID() != span.SpanContext().TraceID() {
				t.Errorf("trace: got %v, want %v", seen.TraceID(), span.SpanContext().TraceID())
			}
			stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); !fault.Is(err, fault.RateLimitExceeded) {
				t.Errorf("stream: got the error %v, want the reason %v", err, fault.RateLimitExceeded)
			}
		})
	}
}

func TestAPanicIsAnInternalFaultAndTheServerLives(t *testing.T) {
	server := &checker{check: func(context.Context) error { panic("boom with a secret") }}
	for name, conn := range channels(t, server) {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				f, ok := fault.As(err)
				switch {
				case !ok:
					t.Errorf("got the error %v, want a fault", err)
				case f.Kind != fault.Internal:
					t.Errorf("f.Kind: got %d, want %d", f.Kind, fault.Internal)
				case strings.Contains(f.Message, "secret"):
					t.Errorf(`f.Message: got %q, want it without "secret"`, f.Message)
				}
			}
		})
	}
}

func TestACallWithoutDeadlineGetsOne(t *testing.T) {
	var left time.Duration
	server := &checker{check: func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return nil
	}}
	for name, conn := range channels(t, server) {
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
			&grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(name, err)
		}
		if left <= 0 || left > DefaultTimeout {
			t.Errorf("%s: left: got %v, want more than 0 and at most %v", name, left, DefaultTimeout)
		}
	}
}

func TestOnlyLoopbackIsDialledInTheClear(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true,
		"10.0.0.1:1": false, "example.com:1": false, "127.0.0.1": false, "": false,
	} {
		if err := Loopback(address); (err == nil) != ok {
			t.Errorf("Loopback(%q): err == nil: got %t, want %t", address, err == nil, ok)
		}
	}
}

func TestHTTPLetsRequestsEndWhenItStops(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started, release := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(started)
		<-release
		w.WriteHeader(http.StatusTeapot)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- HTTP(ctx, lis, handler, HTTPConfig{Log: slog.New(slog.DiscardHandler)}) }()
	got := make(chan int)
	go func() {
		resp, err := http.Get("http://" + lis.Addr().String())
		if err != nil {
			got <- 0
			return
		}
		resp.Body.Close()
		got <- resp.StatusCode
	}()
	<-started
	cancel()
	close(release)
	if status := <-got; status != http.StatusTeapot {
		t.Errorf("the request under way ended with: got %d, want 418", status)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestARequestThatOutlastsTheDrainIsToldThatTheServerStops(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
		if errors.Is(context.Cause(r.Context()), ErrStopping) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- HTTP(ctx, lis, handler, HTTPConfig{Log: slog.New(slog.DiscardHandler), DrainTimeout: time.Millisecond})
	}()
	got := make(chan int)
	go func() {
		resp, err := http.Get("http://" + lis.Addr().String())
		if err != nil {
			got <- 0
			return
		}
		resp.Body.Close()
		got <- resp.StatusCode
	}()
	<-started
	cancel()
	if status := <-got; status != http.StatusServiceUnavailable {
		t.Errorf("the client: got %d, want 503", status)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
