package demo

import (
	"context"
	"crypto/rand"
	"io"
	"testing"
	"time"

	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
	hubv1 "svc.internal/proto/svc/hub/v1"
	providerhub "svc.internal/services/provider-hub"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	pending   = hubv1.ProviderStatus_PROVIDER_STATUS_PENDING
	active    = hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE
	suspended = hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED
)

// hub is the calls of operators on a real hub, by a clock of the test's.
func hub(t *testing.T) (hubv1.ProviderAdminServiceClient, *clock.Manual) {
	t.Helper()
	url := pgtest.URL(t)
	if err := providerhub.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	tel, err := telemetry.Start(telemetry.Config{LogLevel: "warn", LogFormat: "text", Service: "provider-hub"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	at := clock.NewManual(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	cfg := providerhub.DefaultConfig()
	cfg.HubID, cfg.DispatchAddress, cfg.JournalDir, cfg.Pepper = "hub-1", "inprocess", t.TempDir(), [32]byte{1}
	service, err := providerhub.New(t.Context(), cfg, providerhub.Deps{
		Log: tel.Log, Meters: tel.Meters, Clock: at, Random: rand.Reader, Bus: bustest.New(t),
		DB: pgtest.Open(t, url, providerhub.Schema, providerhub.Role),
	})
	if err != nil {
		t.Fatal(err)
	}
	interceptors, err := serve.NewInterceptors(tel.Log, tel.Meters, tel.Traces)
	if err != nil {
		t.Fatal(err)
	}
	channel := serve.NewInProcess(interceptors)
	service.Register(channel)
	return hubv1.NewProviderAdminServiceClient(channel.Client()), at
}

func detail(t *testing.T, providers hubv1.ProviderAdminServiceClient, id string) *hubv1.Provider {
	t.Helper()
	got, err := providers.GetProviderDetail(t.Context(), &hubv1.GetProviderDetailRequest{ProviderId: id})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetProvider()
}

func TestTheDemosProviderIsRenewedAndComesBackWhereItFell(t *testing.T) {
	providers, at := hub(t)
	made, err := makeProvider(t.Context(), providers)
	if err != nil {
		t.Fatal(err)
	}
	id := made.ProviderID
	for _, from := range []hubv1.ProviderStatus{active, pending} {
		if _, err := providers.SetProviderStatus(t.Context(), &hubv1.SetProviderStatusRequest{ProviderId: id,
			Status: from}); err != nil {
			t.Fatal(err)
		}
		at.Advance(24 * time.Hour)
		if err := Renew(t.Context(), providers, id); err != nil {
			t.Fatal(err)
		}
		p := detail(t, providers, id)
		if ends := p.GetQualification().GetBenchmarkExpiresAt().AsTime(); p.GetStatus() != active {
			t.Errorf("from %v: p.GetStatus(): got %v, want %v", from, p.GetStatus(), active)
		} else if want := at.Now().Add(30 * 24 * time.Hour); !ends.Equal(want) {
			t.Errorf("from %v: ends: got %v, want %v", from, ends, want)
		}
	}
	if _, err := providers.SetProviderStatus(t.Context(), &hubv1.SetProviderStatusRequest{ProviderId: id,
		Status: suspended}); err != nil {
		t.Fatal(err)
	}
	if err := Renew(t.Context(), providers, id); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if detail(t, providers, id).GetStatus() != suspended {
		t.Errorf("shut out: got %v, want %v", detail(t, providers, id).GetStatus(), suspended)
	}
}

func TestTheDemosProviderIsRenewedDailyUntilTheEnd(t *testing.T) {
	providers, at := hub(t)
	made, err := makeProvider(t.Context(), providers)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ticks, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		keep(ctx, ticks, providers, made.ProviderID, nil)
	}()
	at.Advance(20 * 24 * time.Hour)
	ticks <- at.Now()
	ticks <- at.Now() // the one before is done
	if ends := detail(t, providers, made.ProviderID).GetQualification().GetBenchmarkExpiresAt().AsTime(); !ends.Equal(
		at.Now().Add(30 * 24 * time.Hour)) {
		t.Errorf("the benchmark ends %v", ends)
	}
	stop()
	<-ended
}
