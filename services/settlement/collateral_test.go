package settlement

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/serve"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// collateralHub records what it is told.
type collateralHub struct {
	hubv1.UnimplementedProviderCollateralServiceServer
	told chan *hubv1.SetCollateralRequest
}

func (h *collateralHub) SetCollateral(
	_ context.Context, req *hubv1.SetCollateralRequest,
) (*hubv1.SetCollateralResponse, error) {
	h.told <- req
	return &hubv1.SetCollateralResponse{}, nil
}

// listen serves a hub on a socket and returns the way to it.
func (h *collateralHub) listen(t *testing.T) hubv1.ProviderCollateralServiceClient {
	t.Helper()
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- serve.GRPC(ctx, lis, serve.GRPCConfig{Interceptors: in}, func(r grpc.ServiceRegistrar) {
			hubv1.RegisterProviderCollateralServiceServer(r, h)
		})
	}()
	conn, err := serve.Dial(serve.Target{Service: "provider-hub", Addresses: []string{lis.Addr().String()}}, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return hubv1.NewProviderCollateralServiceClient(conn)
}

func TestInDevelopmentTheHubIsToldOfEachProviderOnce(t *testing.T) {
	t.Parallel()
	h := &collateralHub{told: make(chan *hubv1.SetCollateralRequest, 100)}
	client := h.listen(t)
	b := setup(t, func(cfg *Config, deps *Deps) { cfg.DevelopmentCollateral, deps.Collateral = true, client })
	other := strings.TrimSuffix(penalised, "1") + "2"
	report := func(providers ...string) []byte {
		p := &eventsv1.Presence{HubId: "hub"}
		for _, id := range providers {
			p.Sessions = append(p.Sessions, &eventsv1.Session{ProviderId: id})
		}
		data, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	// heard reports providers until the hub is told of one: a report may come before
	// settlement listens.
	heard := func(providers ...string) *hubv1.SetCollateralRequest {
		deadline := time.After(patience)
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for {
			if err := b.bus.Publish(t.Context(), bus.SubjectPresence("hub"), report(providers...), nil); err != nil {
				t.Fatal(err)
			}
			select {
			case req := <-h.told:
				return req
			case <-again.C:
			case <-deadline:
				t.Fatalf("the hub was never told of %v", providers)
			}
		}
	}
	first := heard(penalised)
	switch {
	case first.GetProviderId() != penalised:
		t.Errorf("first: got %v, want %s confirmed by revision 1", first, penalised)
	case !first.GetConfirmed():
		t.Errorf("first: got %v, want %s confirmed by revision 1", first, penalised)
	case first.GetRevision() != 1:
		t.Errorf("first: got %v, want %s confirmed by revision 1", first, penalised)
	}
	if want := hubv1.CollateralSource_COLLATERAL_SOURCE_DEVELOPMENT; first.GetSource() != want {
		t.Errorf("first: got the source %v, want %v", first.GetSource(), want)
	}
	if first.GetReason() == "" {
		t.Error(`first: got "" as the reason, want some text`)
	}
	// Whoever was told of is not told of again.
	if second := heard(penalised, other); second.GetProviderId() != other {
		t.Errorf("second: got %v, want %s alone", second, other)
	}
	if n := b.count(t, `SELECT count(*) FROM provider_collateral WHERE revision = 1 AND confirmed`); n != 2 {
		t.Errorf("got %d facts, want 2", n)
	}
}

// Whoever turns the setting off does not leave providers earning without collateral.
func TestAStartWithoutTheSettingWithdrawsDevelopmentCollateral(t *testing.T) {
	t.Parallel()
	h := &collateralHub{told: make(chan *hubv1.SetCollateralRequest, 100)}
	client := h.listen(t)
	setup(t, func(_ *Config, deps *Deps) {
		deps.Collateral = client
		if _, err := deps.DB.Exec(t.Context(),
			`INSERT INTO provider_collateral (provider_id, confirmed, source) VALUES ($1, true, 'development')`,
			penalised); err != nil {
			t.Fatal(err)
		}
	})
	select {
	case got := <-h.told:
		if got.GetProviderId() != penalised {
			t.Errorf("told of %s, want %s", got.GetProviderId(), penalised)
		}
		if got.GetConfirmed() {
			t.Error("confirmed: got true, want false")
		}
		if got.GetRevision() != 2 {
			t.Errorf("revision: got %d, want 2", got.GetRevision())
		}
		if want := hubv1.CollateralSource_COLLATERAL_SOURCE_DEVELOPMENT; got.GetSource() != want {
			t.Errorf("source: got %v, want %v", got.GetSource(), want)
		}
	case <-time.After(patience):
		t.Fatal("the hub was never told of the withdrawal")
	}
}

func TestSettingsOfDevelopmentAreRefusedOffLoopback(t *testing.T) {
	t.Parallel()
	for setting, set := range map[string]func(*Config){
		"development_collateral (": func(c *Config) { c.DevelopmentCollateral = true },
		"development (":            func(c *Config) { c.Development = true },
	} {
		on := DefaultConfig()
		set(&on)
		for _, tc := range []struct {
			cfg       Config
			addresses []string
			faults    int
		}{
			{on, []string{"127.0.0.1:9000", "", "[::1]:0", "localhost:1"}, 0},
			{on, []string{"127.0.0.1:9000", "0.0.0.0:9001"}, 1},
			{on, []string{":9000", "192.0.2.1:9001"}, 2},
			{DefaultConfig(), []string{":9000", "192.0.2.1:9001"}, 0},
		} {
			err := tc.cfg.CheckListeners(tc.addresses...)
			got := 0
			if err != nil {
				got = strings.Count(err.Error(), "settlement: "+setting)
			}
			if got != tc.faults {
				t.Errorf("%s) with %v: got the error %v, want %d faults", setting, tc.addresses, err, tc.faults)
			}
		}
	}
}
