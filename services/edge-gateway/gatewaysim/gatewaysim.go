// Package gatewaysim makes gateways for a simulator: the real HTTP surface, admission,
// relay, report queue and leases, with peers, clock and randomness from the simulator,
// and without loops of their own.
//
// A gateway's requests run in the goroutine that calls ServeHTTP. That goroutine blocks
// only in the peers that it is given, with two exceptions. Select is called from a
// goroutine of the request and must answer at once from what stands in its context. The
// end of a request's context reaches the hub's stream (CloseSend, or the end of the
// stream's context) from another goroutine. No timer of a gateway fires within the real
// time that a simulation takes; the simulator plays the timers that matter by failing a
// call.
// An answer to a refused request says nothing of its rate, because such a timer bounds
// the reading of it.
package gatewaysim

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/httpapi"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/pages"
	"svc.internal/services/edge-gateway/internal/shapes"
)

// The times of gateways in production that a simulator plays.
const (
	CallTimeout   = 5 * time.Second
	Lease         = time.Minute
	RenewInterval = Lease / 4
	RenewRetry    = 2 * time.Second
	Linger        = 50 * time.Millisecond
	RetryFirst    = 100 * time.Millisecond
	MaxRetry      = 5 * time.Second
	HangUp        = 3 * time.Second
)

// never is longer than any simulation takes.
const never = 24 * time.Hour

// Peers are what a gateway works with.
type Peers struct {
	Clock     clock.Clock
	Random    io.Reader
	Keys      billingv1.KeyServiceClient
	Admission billingv1.AdmissionServiceClient
	Router    routerv1.RouterServiceClient
	Hubs      func(dispatchAddress string) (hubv1.DispatchServiceClient, error)
	// Await returns when done is closed or when the gateway has been stopped.
	Await func(ctx context.Context, done <-chan struct{})
}

// Shared is what all gateways of a process share.
type Shared struct {
	models   *catalog.View
	metrics  *httpapi.Metrics
	requests *inference.Metrics
	log      *slog.Logger
}

// NewShared makes the shared parts for a catalog of models.
func NewShared(models []*catalogv1.Model) (*Shared, error) {
	metrics, err := httpapi.NewMetrics(metricnoop.NewMeterProvider())
	if err != nil {
		return nil, err
	}
	requests, err := inference.NewMetrics(metricnoop.NewMeterProvider())
	if err != nil {
		return nil, err
	}
	s := &Shared{log: slog.New(slog.DiscardHandler), metrics: metrics, requests: requests}
	s.models = catalog.NewView(snapshotOnce{models: models}, clock.System, s.log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.models.Run(ctx)
	}()
	for s.models.Ready() != nil {
		runtime.Gosched()
	}
	cancel()
	<-done
	return s, nil
}

// snapshotOnce is a catalog that sends one snapshot and then nothing.
type snapshotOnce struct {
	catalogv1.CatalogServiceClient
	grpc.ServerStreamingClient[catalogv1.WatchModelsResponse]
	ctx    context.Context //nolint:containedctx // it is the stream's
	models []*catalogv1.Model
	told   *bool
}

// WatchModels implements catalogv1.CatalogServiceClient.
func (s snapshotOnce) WatchModels(
	ctx context.Context, _ *catalogv1.WatchModelsRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[catalogv1.WatchModelsResponse], error) {
	s.ctx, s.told = ctx, new(bool)
	return s, nil
}

// Recv returns the snapshot, and then the end of the context.
func (s snapshotOnce) Recv() (*catalogv1.WatchModelsResponse, error) {
	if !*s.told {
		*s.told = true
		return &catalogv1.WatchModelsResponse{Models: s.models}, nil
	}
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

// Gateway is one gateway. Its memory is lost with it.
type Gateway struct {
	handler http.Handler
	leases  *inference.Leases
	reports *inference.Reports
}

// New makes a gateway.
func (s *Shared) New(p Peers) (*Gateway, error) {
	g := &Gateway{
		leases: inference.NewLeases(p.Admission, p.Clock, s.log, inference.LeaseConfig{
			Interval: RenewInterval, Retry: RenewRetry, CallTimeout: never, MaxRequests: 1 << 10, Await: p.Await,
		}),
		reports: inference.NewReports(p.Admission, s.log, s.requests.ReportsDropped, inference.ReportConfig{
			Queue: 1 << 10, BatchSize: 200, Linger: Linger, CallTimeout: never, RetryFirst: RetryFirst, RetryMax: MaxRetry,
		}),
	}
	g.handler = httpapi.New(httpapi.Parts{
		Log: s.log, Tracer: tracenoop.Tracer{}, Clock: p.Clock, Random: p.Random, Metrics: s.metrics,
		Pages: new(pages.Files), // no browser asks it
		Auth: auth.New(p.Keys, p.Clock, auth.Config{
			Known: 16, Refused: 16, KnownFor: time.Minute, RefusedFor: 5 * time.Second, Timeout: never,
			WrongKeys: 1000, WrongKeyNetworks: 16,
		}),
		Catalog: s.models,
		Runner: inference.New(inference.Deps{
			Admission: admission.New(p.Admission, p.Router, releaseSlot, admission.Config{
				AdmitTimeout: never, SelectTimeout: never, SelectGrace: never,
			}),
			Hubs: p.Hubs, Models: s.models, Leases: g.leases, Reports: g.reports, Metrics: s.requests,
			Shapes: shapes.NewCounter(keepShapes, p.Clock, s.log), Clock: p.Clock, Random: p.Random, Log: s.log,
		}, inference.Config{
			MaxAttempts: 3, MaxBody: 1 << 20, FirstContent: 20 * time.Second, FirstContentAll: time.Minute,
			Total: 10 * time.Minute, HubGrace: never, HoldHeaders: never, KeepAlive: never,
		}),
		Ready: func(context.Context) error { return nil },
	}, httpapi.Config{MaxBody: 1 << 20, MaxMessages: 1 << 10, BodyTimeout: never, AnswerTimeout: never})
	return g, nil
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// Renew renews the leases that are due.
func (g *Gateway) Renew(ctx context.Context) error { return g.leases.Renew(ctx) }

// Reports takes a batch of the waiting request reports.
func (g *Gateway) Reports() []*billingv1.RequestReport { return g.reports.Waiting() }

// Conclude sends a batch once. After an error the batch is to be sent again.
func (g *Gateway) Conclude(ctx context.Context, batch []*billingv1.RequestReport) error {
	return g.reports.Send(ctx, batch)
}

// releaseSlot reports to no router.
func releaseSlot(context.Context, *eventsv1.Attempt) {}

// keepShapes reports to no verifier.
func keepShapes(context.Context, []byte) error { return nil }
