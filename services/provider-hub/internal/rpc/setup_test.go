package rpc_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/events"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/rpc"
	"svc.internal/services/provider-hub/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// dispatcher is the RPCs of accounts as others call them, on a clock of the test's.
type desk struct {
	*testing.T
	clock     *clock.Manual
	pool      *pgxpool.Pool
	tables    *store.Store
	accounts  *provider.Directory
	registry  *registry.Registry
	bus       *bus.Conn
	admin     hubv1.ProviderAdminServiceClient
	self      hubv1.ProviderSelfServiceClient
	directory hubv1.ProviderDirectoryServiceClient
	verdicts  hubv1.VerdictServiceClient
	deposits  hubv1.ProviderCollateralServiceClient
	payees    hubv1.PayeeServiceClient
	run       presence.Run
	epoch     int64
	// revision is that of the verifier's last word.
	revision int64
}

func setup(t *testing.T) *desk {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	d := &desk{T: t, clock: clock.NewManual(start), pool: pgtest.Pool(t, store.Schema, store.Role, store.Migrations),
		bus: bustest.New(t)}
	d.tables = store.New(d.pool)
	d.run = presence.Run{HubID: "hub-a", Incarnation: 1, Started: start}
	d.accounts = provider.NewDirectory(d.tables, provider.SecretsOf(apikey.Pepper{1}), provider.Site{Domain: "svc.test",
		URI: "wss://svc.test/ws", ChainID: 8453}, d.clock, rand.Reader)
	d.registry = registry.New(d.accounts, presence.NewRecorder("hub-a", d.tables, d.clock, quiet), nil, 0)
	interceptors, err := serve.NewInterceptors(quiet, noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	d.must(err)
	channel := serve.NewInProcess(interceptors)
	warmups := events.NewWarmups(d.bus, d.registry, func(events.WarmOutcome) {})
	hubv1.RegisterProviderAdminServiceServer(channel, rpc.NewAdmin(d.accounts, d.registry, warmups))
	hubv1.RegisterProviderSelfServiceServer(channel, rpc.NewSelf(d.accounts, d.registry))
	hubv1.RegisterProviderDirectoryServiceServer(channel, rpc.NewDirectory(d.accounts, d.registry))
	hubv1.RegisterVerdictServiceServer(channel, rpc.NewVerdicts(d.accounts, d.registry))
	hubv1.RegisterProviderCollateralServiceServer(channel, rpc.NewCollateral(d.accounts, d.registry, false))
	hubv1.RegisterPayeeServiceServer(channel, rpc.NewPayees(d.accounts))
	d.payees = hubv1.NewPayeeServiceClient(channel.Client())
	d.verdicts = hubv1.NewVerdictServiceClient(channel.Client())
	d.deposits = hubv1.NewProviderCollateralServiceClient(channel.Client())
	d.admin = hubv1.NewProviderAdminServiceClient(channel.Client())
	d.self = hubv1.NewProviderSelfServiceClient(channel.Client())
	d.directory = hubv1.NewProviderDirectoryServiceClient(channel.Client())
	return d
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// member is a provider that signed up.
type member struct {
	id     string
	key    string
	digest []byte
}

func (d *desk) signUp() member {
	d.Helper()
	got, err := d.self.SignUp(d.Context(), &hubv1.SignUpRequest{Name: "Farm", Region: "eu"})
	d.must(err)
	return memberOf(got)
}

func memberOf(got *hubv1.SignUpResponse) member {
	digest := apikey.Sum(got.GetApiKey())
	return member{id: got.GetProvider().GetProviderId(), key: got.GetApiKey(), digest: digest[:]}
}

func (d *desk) set(m member, to hubv1.ProviderStatus) (*hubv1.Provider, error) {
	got, err := d.admin.SetProviderStatus(d.Context(), &hubv1.SetProviderStatusRequest{ProviderId: m.id, Status: to,
		Reason: "because"})
	return got.GetProvider(), err
}

// confirm is an operator's confirmation.
func (d *desk) confirm(m member, c *hubv1.ConfirmQualificationRequest) (*hubv1.Provider, error) {
	c.ProviderId, c.Reason = m.id, "seen"
	got, err := d.admin.ConfirmQualification(d.Context(), c)
	return got.GetProvider(), err
}

// benchmark is a newer word of the verifier: a benchmark was passed now, or none counts.
func (d *desk) benchmark(m member, passed bool) {
	d.Helper()
	d.revision++
	at := d.clock.Now()
	if !passed {
		at = time.Time{}
	}
	d.must(d.report(m, passed, at, d.revision))
}

// activate has everything confirmed that activation needs: collateral and a waiver of the
// GPU rule by an operator, and the benchmark by the verifier.
func (d *desk) activate(m member) {
	d.Helper()
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes(), GpuWaived: yes()})
	d.must(err)
	d.benchmark(m, true)
	if got := d.status(m); got != active {
		d.Fatalf("with every fact: status: got %v, want %v", got, active)
	}
}

func (d *desk) own(m member) *hubv1.GetOwnStatusResponse {
	d.Helper()
	got, err := d.self.GetOwnStatus(d.Context(), &hubv1.GetOwnStatusRequest{KeyDigest: m.digest})
	d.must(err)
	return got
}

func (d *desk) status(m member) hubv1.ProviderStatus {
	d.Helper()
	return d.own(m).GetProvider().GetStatus()
}

func (d *desk) sweep() {
	d.Helper()
	_, err := d.accounts.Sweep(d.Context())
	d.must(err)
}

// cut has a hub tell of a node that is connected and claims too much.
func (d *desk) cut(m member, node, text string) {
	d.Helper()
	account, err := d.accounts.Holder(context.Background(), apikey.Digest(m.digest))
	d.must(err)
	d.epoch++
	d.write(presence.Page{
		Nodes: []presence.Seen{{Machine: presence.Machine{Provider: account.ID, Node: node}, Dialect: "v2", Cut: text,
			LastSeen: d.clock.Now()}},
		Connections: []presence.Connection{{Epoch: d.epoch, Provider: account.ID, Node: node, Started: d.clock.Now()}},
	})
}

// seen has a hub tell of a node that is connected, with what it says of itself.
func (d *desk) seen(m member, node string, hardware *gpu.Report) {
	d.Helper()
	account, err := d.accounts.Holder(context.Background(), apikey.Digest(m.digest))
	d.must(err)
	d.epoch++
	d.write(presence.Page{
		Nodes: []presence.Seen{{
			Machine: presence.Machine{Provider: account.ID, Node: node}, Name: node, AgentVersion: "1.2", Dialect: "v1",
			Hardware: hardware, LastSeen: d.clock.Now(),
		}},
		Connections: []presence.Connection{{Epoch: d.epoch, Provider: account.ID, Node: node, Started: d.clock.Now()}},
	})
}

// write is a page of the hub.
func (d *desk) write(page presence.Page) {
	d.Helper()
	page.At, page.Live = d.clock.Now(), func() []int64 { return nil }
	d.must(d.tables.Record(d.Context(), d.run, page))
}

var goodGPU = &gpu.Report{Model: "NVIDIA GeForce RTX 4090", Type: "RTX 4090", Count: 2, VRAMGB: 23,
	ComputeCapability: "8.9\n8.9", Engine: "vllm"}

// presencePage is a page on which nothing is new.
func presencePage() presence.Page { return presence.Page{} }

func yes() *bool { v := true; return &v }

func no() *bool { v := false; return &v }
