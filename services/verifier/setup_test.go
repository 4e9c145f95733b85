package verifier

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/lab"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	// patience bounds every wait for something that must happen.
	patience = 4 * time.Minute
	model    = "acme/base"
	houseKey = "sk-svc-house"
)

// provider returns the id of a host's account: 0 is the provider under test, 1 and 2 are
// references.
func provider(n byte) ids.ProviderID { return ids.ProviderID{1, 6: 0x70, 8: 0x80, 15: n} }

// engines serve the model on all hosts.
var engines = sync.OnceValue(func() map[byte]http.Handler {
	hosts := map[byte]http.Handler{}
	for n := range byte(3) {
		hosts[n] = tinylm.NewServer(lab.Honest(lab.Base(), uint64(n)+1), tinylm.Options{ModelName: model})
	}
	return hosts
})

// peersOf are the services that the verifier calls.
type peersOf struct {
	catalogv1.UnimplementedCatalogServiceServer
	catalogv1.UnimplementedPublicCatalogServiceServer
	billingv1.UnimplementedHouseAccountServiceServer
	settlementv1.UnimplementedPenaltyServiceServer
	hubv1.UnimplementedVerdictServiceServer
	hubv1.UnimplementedChallengeServiceServer

	mu       sync.Mutex
	reported chan *hubv1.ReportBenchmarkRequest
	asked    int
	accounts map[string]string // by idempotency key
	keys     int
}

func (p *peersOf) WatchModels(
	_ *catalogv1.WatchModelsRequest, stream grpc.ServerStreamingServer[catalogv1.WatchModelsResponse],
) error {
	err := stream.Send(&catalogv1.WatchModelsResponse{Revision: 1, Models: []*catalogv1.Model{{ModelId: model,
		Active: true, ContextLength: 1024, MaxOutputTokens: 512}}})
	if err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *peersOf) ListCatalog(context.Context, *catalogv1.ListCatalogRequest) (*catalogv1.ListCatalogResponse, error) {
	return &catalogv1.ListCatalogResponse{}, nil
}

func (p *peersOf) OpenHouseAccount(
	_ context.Context, req *billingv1.OpenHouseAccountRequest,
) (*billingv1.OpenHouseAccountResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accounts == nil {
		p.accounts = map[string]string{}
	}
	if p.accounts[req.GetIdempotencyKey()] == "" {
		p.accounts[req.GetIdempotencyKey()] = ids.AccountID{6: 0x70, 8: 0x80, 15: byte(len(p.accounts) + 1)}.String()
	}
	return &billingv1.OpenHouseAccountResponse{AccountId: p.accounts[req.GetIdempotencyKey()]}, nil
}

func (p *peersOf) FundHouseAccount(
	_ context.Context, req *billingv1.FundHouseAccountRequest,
) (*billingv1.FundHouseAccountResponse, error) {
	return &billingv1.FundHouseAccountResponse{BalanceNanoUsd: req.GetAmountNanoUsd()}, nil
}

func (p *peersOf) IssueHouseKey(
	context.Context, *billingv1.IssueHouseKeyRequest,
) (*billingv1.IssueHouseKeyResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys++
	return &billingv1.IssueHouseKeyResponse{KeyId: ids.KeyID{6: 0x70, 8: 0x80, 15: byte(p.keys)}.String(),
		ApiKey: houseKey}, nil
}

func (p *peersOf) ReportBenchmark(
	_ context.Context, req *hubv1.ReportBenchmarkRequest,
) (*hubv1.ReportBenchmarkResponse, error) {
	p.reported <- req
	return &hubv1.ReportBenchmarkResponse{}, nil
}

// Run gives a challenge to the engine of its host.
func (p *peersOf) Run(m *hubv1.RunRequest, stream grpc.ServerStreamingServer[hubv1.RunResponse]) error {
	p.mu.Lock()
	p.asked++
	p.mu.Unlock()
	id, err := ids.ParseProvider(m.GetProviderId())
	if err != nil {
		return err
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
		strings.NewReader(string(m.GetInference().GetBody())))
	w := httptest.NewRecorder()
	engines()[id[15]].ServeHTTP(w, r.WithContext(stream.Context()))
	end := hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED
	if w.Code != http.StatusOK {
		end = hubv1.ChallengeEnd_CHALLENGE_END_REFUSED
	}
	raw := w.Body.Bytes()
	for at := int64(1); len(raw) > 0; at++ {
		n := min(len(raw), 2048)
		err := stream.Send(&hubv1.RunResponse{Message: &hubv1.RunResponse_Chunk{
			Chunk: &hubv1.ChallengeChunk{Data: raw[:n], AtUs: at * 1000}}})
		if err != nil {
			return err
		}
		raw = raw[n:]
	}
	return stream.Send(&hubv1.RunResponse{Message: &hubv1.RunResponse_Finished{
		Finished: &hubv1.ChallengeFinished{End: end, EngineStatus: int32(w.Code), Dialect: "v2"}}})
}

// bundle is a verifier among peers that do as a test says.
type bundle struct {
	t       *testing.T
	peers   *peersOf
	bus     *bus.Conn
	pool    *pgxpool.Pool
	service *Service
	cfg     Config
	self    verifierv1.VerifierSelfServiceClient
	admin   verifierv1.VerifierAdminServiceClient
	heard   chan *eventsv1.TrustReport
	// front is the public API.
	front *httptest.Server
}

func setup(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	b := &bundle{t: t, bus: bustest.New(t), pool: pgtest.Pool(t, Schema, Role, store.Migrations),
		peers: &peersOf{reported: make(chan *hubv1.ReportBenchmarkRequest, 64)},
		heard: make(chan *eventsv1.TrustReport, 1024)}
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		Tables().Fault)
	if err != nil {
		t.Fatal(err)
	}
	channel := serve.NewInProcess(in)
	catalogv1.RegisterCatalogServiceServer(channel, b.peers)
	catalogv1.RegisterPublicCatalogServiceServer(channel, b.peers)
	billingv1.RegisterHouseAccountServiceServer(channel, b.peers)
	settlementv1.RegisterPenaltyServiceServer(channel, b.peers)
	hubv1.RegisterVerdictServiceServer(channel, b.peers)
	hubv1.RegisterChallengeServiceServer(channel, b.peers)
	conn := channel.Client()
	b.cfg = DefaultConfig()
	b.cfg.Sealed, b.cfg.Development = filepath.Join(t.TempDir(), "sealed.json"), true
	for _, c := range change {
		c(&b.cfg)
	}
	b.service, err = New(t.Context(), b.cfg, Deps{
		Log: slog.New(slog.DiscardHandler), Meters: noop.NewMeterProvider(), Clock: clock.System, Bus: b.bus, DB: b.pool,
		Catalog:       catalogv1.NewCatalogServiceClient(conn),
		PublicCatalog: catalogv1.NewPublicCatalogServiceClient(conn),
		House:         billingv1.NewHouseAccountServiceClient(conn), Verdicts: hubv1.NewVerdictServiceClient(conn),
		Penalties: settlementv1.NewPenaltyServiceClient(conn),
		Hubs: func(string) (hubv1.ChallengeServiceClient, error) {
			return hubv1.NewChallengeServiceClient(conn), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.service.Register(channel)
	b.self, b.admin = verifierv1.NewVerifierSelfServiceClient(conn), verifierv1.NewVerifierAdminServiceClient(conn)
	for _, stream := range []bus.StreamConfig{bus.TrustStream, bus.UsageStream} {
		if err := b.bus.EnsureStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	b.hear()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b
}

// hear hears what routers hear, and answers for hubs that are asked for their presence.
func (b *bundle) hear() {
	b.t.Helper()
	trust, err := b.bus.Subscribe(bus.SubjectTrustAll, "", func(_ context.Context, m bus.Message) {
		r := &eventsv1.TrustReport{}
		if err := proto.Unmarshal(m.Data, r); err != nil {
			b.t.Error(err)
			return
		}
		select {
		case b.heard <- r:
		default:
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	asked, err := b.bus.Subscribe(bus.SubjectPresenceSync, "", func(ctx context.Context, _ bus.Message) { b.present(ctx) })
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _, _ = trust.Stop(), asked.Stop() })
}

// present reports the provider under test and two references.
func (b *bundle) present(ctx context.Context) {
	report := &eventsv1.Presence{HubId: "hub-1", Incarnation: 1, DispatchAddress: "h:1", Revision: 1, Full: true, Parts: 1}
	for n := range byte(3) {
		s := &eventsv1.Session{ProviderId: provider(n).String(), NodeId: "n", Epoch: int64(n) + 1,
			ConnectionMode: eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET, Active: n == 0, Reference: n > 0,
			Capabilities: []string{"chat", "stream", "logprobs"}, GpuClass: "none",
			Models: []*eventsv1.ModelOffer{{ModelId: model, Healthy: true, Quantization: "fp16", Engine: "tinylm",
				ReportedContextLength: 1024, Capacity: 2}}}
		if n == 0 {
			s.ActiveSince = timestamppb.New(time.Now().Add(-time.Hour))
		}
		report.Sessions = append(report.Sessions, s)
	}
	data, err := proto.Marshal(report)
	if err == nil {
		err = b.bus.Publish(ctx, bus.SubjectPresence("hub-1"), data, nil)
	}
	if err != nil && ctx.Err() == nil {
		b.t.Error(err)
	}
}

// until returns the first report of trust that a test takes.
func (b *bundle) until(what string, takes func(*eventsv1.Trust) bool) {
	b.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case r := <-b.heard:
			for _, m := range r.GetModels() {
				if takes(m) {
					return
				}
			}
		case <-deadline:
			b.t.Fatalf("%s: it never came", what)
		}
	}
}
