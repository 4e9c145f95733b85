package signer

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	signerv1 "svc.internal/proto/svc/signer/v1"
)

// credentials proves that a process is a service.
func credentials(t *testing.T, dir, service string) *serve.Credentials {
	t.Helper()
	if err := devcerts.Write(dir, devcerts.Leaf{File: service, Services: []string{service}}); err != nil {
		t.Fatal(err)
	}
	creds, err := serve.LoadCredentials(serve.TLSFiles{
		Cert: devcerts.CertFile(dir, service), Key: devcerts.KeyFile(dir, service), CA: filepath.Join(dir, devcerts.CAFile),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

func TestSettlementAloneIsServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := serve.GRPCConfig{Interceptors: in, Credentials: credentials(t, dir, Spec().Name), Callers: Spec().Callers}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve.GRPC(ctx, lis, cfg, b.services[0].Register) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for nonce, caller := range node.Names() {
		conn, err := serve.Dial(serve.Target{Service: Spec().Name, Addresses: []string{lis.Addr().String()}}, in,
			credentials(t, dir, caller))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
		client := signerv1.NewSignerServiceClient(conn)
		for call, ask := range map[string]func() error{
			"SignTransaction": func() error {
				_, err := client.SignTransaction(t.Context(), payout(int64(nonce), 1))
				return err
			},
			"ListKeys": func() error {
				_, err := client.ListKeys(t.Context(), &signerv1.ListKeysRequest{})
				return err
			},
		} {
			want := fault.CallerNotAllowed
			if caller == node.Settlement {
				want = ""
			}
			if got := reasonOf(ask()); got != want {
				t.Errorf("%s calls %s: got %q, want %q", caller, call, got, want)
			}
		}
	}
}
