package serve

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"svc.internal/pkg/devcerts"
)

// BenchmarkUnaryRemote is what a call costs both ends over a socket with mutual TLS, as cpu-µs/op.
func BenchmarkUnaryRemote(b *testing.B) {
	for name, callers := range map[string]int{"callers=1": 1, "callers=16": 16} {
		b.Run(name, func(b *testing.B) {
			client := grpc_health_v1.NewHealthClient(remote(b))
			work := make(chan struct{}, callers)
			var all sync.WaitGroup
			call := func() {
				if _, err := client.Check(b.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
					b.Error(err)
				}
			}
			call()
			for range callers {
				all.Go(func() {
					for range work {
						call()
					}
				})
			}
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			all.Wait()
			b.ReportMetric(float64(cpuTime(b)-began)/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}

func cpuTime(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// remote is a connection with mutual TLS to a server of health checks.
func remote(b *testing.B) grpc.ClientConnInterface {
	b.Helper()
	dir := b.TempDir()
	creds := map[string]*Credentials{}
	for _, service := range []string{"billing-ledger", "edge-gateway"} {
		if err := devcerts.Write(dir, devcerts.Leaf{File: service, Services: []string{service}}); err != nil {
			b.Fatal(err)
		}
		var err error
		if creds[service], err = LoadCredentials(filesOf(dir, service), slog.New(slog.DiscardHandler)); err != nil {
			b.Fatal(err)
		}
	}
	in, err := NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		b.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	cfg := GRPCConfig{Interceptors: in, Credentials: creds["billing-ledger"],
		Callers: Callers{grpc_health_v1.Health_ServiceDesc.ServiceName: {"edge-gateway"}}}
	go func() {
		done <- GRPC(ctx, lis, cfg, func(r grpc.ServiceRegistrar) {
			grpc_health_v1.RegisterHealthServer(r, &checker{check: func(context.Context) error { return nil }})
		})
	}()
	conn, err := Dial(Target{Service: "billing-ledger", Addresses: []string{lis.Addr().String()}, Exactly: true}, in,
		creds["edge-gateway"])
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := conn.Close(); err != nil {
			b.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return conn
}
