package settlement

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
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

// serveTLS serves the service as its process does, and returns how another service reaches
// it.
func serveTLS(t *testing.T, b *bundle) func(caller string) *grpc.ClientConn {
	t.Helper()
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
	go func() { done <- serve.GRPC(ctx, lis, cfg, b.service.Register) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func(caller string) *grpc.ClientConn {
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
		return conn
	}
}

func TestEachCallAboutPenaltiesBelongsToOneService(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dial := serveTLS(t, b)
	p := b.openPenalty(t)
	for _, caller := range []string{"verifier", "edge-gateway", "provider-hub", "router", "settlement"} {
		conn := dial(caller)
		penalties, admin := settlementv1.NewPenaltyServiceClient(conn), settlementv1.NewPenaltyAdminServiceClient(conn)
		for call, tc := range map[string]struct {
			owner string
			err   func() error
		}{
			"OpenPenalty": {"verifier", func() error {
				another := openRequest(t)
				another.ModelId = "acme/other"
				_, err := penalties.OpenPenalty(t.Context(), another)
				return err
			}},
			"Appeal": {"edge-gateway", func() error {
				_, err := penalties.Appeal(t.Context(), &settlementv1.AppealRequest{PenaltyId: p.GetPenaltyId(),
					ProviderId: penalised, Text: "no"})
				return err
			}},
			"ListPenalties": {"edge-gateway", func() error {
				_, err := penalties.ListPenalties(t.Context(), &settlementv1.ListPenaltiesRequest{ProviderId: penalised})
				return err
			}},
			"ListAllPenalties": {"edge-gateway", func() error {
				_, err := admin.ListAllPenalties(t.Context(), &settlementv1.ListAllPenaltiesRequest{})
				return err
			}},
		} {
			err := tc.err()
			f, refused := fault.As(err)
			switch {
			case caller == tc.owner && err != nil:
				t.Errorf("%s calls %s: got the error %v, want none", caller, call, err)
			case caller != tc.owner && (!refused || f.Kind != fault.Denied):
				t.Errorf("%s calls %s: got the error %v, want %s", caller, call, err, fault.CallerNotAllowed)
			}
		}
		_, err := admin.ResolvePenalty(t.Context(), &settlementv1.ResolvePenaltyRequest{PenaltyId: "none", Reason: "no"})
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("%s calls ResolvePenalty: got the error %v", caller, err)
		case (f.Kind == fault.Denied) == (caller == "edge-gateway"):
			t.Errorf("%s calls ResolvePenalty: got the error %v", caller, err)
		}
	}
}
