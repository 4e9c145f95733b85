// Package router chooses, for each request, the providers to try and their order. It has
// no store. It learns what is online from the presence that hubs publish, what is healthy
// from their ended attempts, and what is trusted from the verifier's reports. After a
// restart it knows again within a second what is online.
package router

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/router/internal/directory"
	"svc.internal/services/router/internal/events"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/peers"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/retry"
	"svc.internal/services/router/internal/rpc"
	"svc.internal/services/router/internal/trust"
	"svc.internal/services/router/internal/warmup"
)

// Config of the service. The weights and waits of selection are fixed, and documented
// where they are used (packages pick, score, window, breaker, slot).
type Config struct {
	// SettleFor is how long a start waits for the first full report of a hub before the
	// service is ready without it.
	SettleFor time.Duration `yaml:"settle_for" env:"SVC_ROUTER_SETTLE_FOR"`
	// TrustFor is how long a start waits until what the verifier said last is read. It is
	// longer, because a router that does not know a verdict would send requests to a model
	// that is shut.
	TrustFor time.Duration `yaml:"trust_for" env:"SVC_ROUTER_TRUST_FOR"`
	// SweepInterval is the pause between two looks for what has expired.
	SweepInterval time.Duration `yaml:"sweep_interval" env:"SVC_ROUTER_SWEEP_INTERVAL"`
}

// DefaultConfig settles for a second, reads verdicts for 30, and sweeps every second.
func DefaultConfig() Config {
	return Config{SettleFor: time.Second, TrustFor: 30 * time.Second, SweepInterval: time.Second}
}

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	if c.SettleFor <= 0 || c.TrustFor <= 0 || c.SweepInterval <= 0 {
		return errors.New("router: settle_for, trust_for and sweep_interval must be above zero")
	}
	return nil
}

// Deps are the parts the service works with.
type Deps struct {
	Log    *slog.Logger
	Meters metric.MeterProvider
	Clock  clock.Clock
	// Random seeds the random choices. 32 bytes of it are read once.
	Random    io.Reader
	Bus       *bus.Conn
	Catalog   catalogv1.CatalogServiceClient
	Providers hubv1.ProviderDirectoryServiceClient
}

// Service is the router.
type Service struct {
	cfg      Config
	deps     Deps
	view     *presence.View
	known    *health.Registry
	trust    *trust.Registry
	stats    *pick.Stats
	retries  *retry.Budget
	waitlist *pick.Waitlist
	catalog  *peers.Catalog
	listener *events.Listener
	reports  *events.TrustListener
	warmer   *events.Warmer
	server   *rpc.Router
	settled  atomic.Bool
}

// sweepsPerRefresh is how many sweeps pass between two refreshes of the health windows,
// which are long compared with that.
const sweepsPerRefresh = 10

// New makes the service; Run starts it.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var seed [32]byte
	if _, err := io.ReadFull(deps.Random, seed[:]); err != nil {
		return nil, fmt.Errorf("router: read a seed: %w", err)
	}
	s := &Service{
		cfg: cfg, deps: deps, known: health.New(), stats: &pick.Stats{}, retries: &retry.Budget{},
		waitlist: pick.NewWaitlist(), catalog: peers.NewCatalog(deps.Catalog, deps.Log),
	}
	s.view = presence.New(s.waitlist.Wake)
	s.trust = trust.New(s.waitlist.Wake)
	s.trust.SetGateway(s.catalog.Gateway)
	planner := warmup.New(s.view, s.trust, words(seed[16:]))
	picker := pick.New(pick.Deps{
		View: s.view, Health: s.known, Trust: s.trust, Clock: deps.Clock, Windows: s.catalog.Window,
		Directory: directory.New(peers.AskHub(deps.Providers), deps.Clock),
		Seed:      words(seed[:16]),
		Waitlist:  s.waitlist, Stats: s.stats, Warm: planner, Retries: s.retries,
	})
	s.listener = events.NewListener(events.ListenerDeps{
		Bus: deps.Bus, View: s.view, Picker: picker, Clock: deps.Clock, Log: deps.Log,
	})
	s.reports = events.NewTrustListener(events.TrustListenerDeps{
		Bus: deps.Bus, Trust: s.trust, Clock: deps.Clock, Log: deps.Log,
	})
	s.warmer = events.NewWarmer(events.WarmerDeps{Bus: deps.Bus, Planner: planner, Clock: deps.Clock, Log: deps.Log})
	s.server = rpc.NewRouter(rpc.Parts{
		Picker: picker, View: s.view, Health: s.known, Trust: s.trust, Stats: s.stats, Windows: s.catalog.Window,
		Clock: deps.Clock, Settled: s.settled.Load, Log: deps.Log,
	})
	if err := s.measure(deps.Meters.Meter("svc.internal/services/router")); err != nil {
		return nil, err
	}
	return s, nil
}

// words reads the seed of a generator from 16 bytes.
func words(b []byte) [2]uint64 {
	return [2]uint64{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

// Register adds the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	routerv1.RegisterRouterServiceServer(r, s.server)
}

// Run keeps the view until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.listener.Run(ctx) })
	group.Go(func() error { return s.reports.Run(ctx) })
	group.Go(func() error { return s.warmer.Run(ctx) })
	group.Go(func() error {
		s.catalog.Run(ctx)
		return nil
	})
	group.Go(func() error {
		s.settle(ctx)
		return nil
	})
	group.Go(func() error {
		s.sweep(ctx)
		return nil
	})
	return group.Wait()
}

// Ready reports whether the view can be relied on, because the hubs have reported in full and
// the verifier's reports have been read, or there has been the time to. A bus that is away
// later does not matter, because it is away for all replicas and nobody knows better than
// what was heard last.
func (s *Service) Ready(context.Context) error {
	if !s.settled.Load() {
		return errors.New("router: no hub has reported yet, or what the verifier said is not read yet")
	}
	return nil
}

// otherHubsWait is how long the router waits behind the first hub's report for the reports of the
// other hubs, which answer the same question. The first one may come from a hub that has just
// started in the router's own process and holds no session yet.
const otherHubsWait = 100 * time.Millisecond

// settle makes the service ready once both are known or their times are over.
func (s *Service) settle(ctx context.Context) {
	hubs, trust := time.NewTimer(s.cfg.SettleFor), time.NewTimer(s.cfg.TrustFor)
	defer hubs.Stop()
	defer trust.Stop()
	heard := await(ctx, s.listener.First(), hubs.C) && clock.Sleep(ctx, otherHubsWait) == nil
	if heard && await(ctx, s.reports.Read(), trust.C) {
		s.settled.Store(true)
	}
}

// await returns true when something is known or its time is over, and false when ctx ends.
func await(ctx context.Context, known <-chan struct{}, over <-chan time.Time) bool {
	select {
	case <-known:
	case <-over:
	case <-ctx.Done():
		return false
	}
	return true
}

func (s *Service) sweep(ctx context.Context) {
	n := 0
	for range clock.Every(ctx, s.cfg.SweepInterval) {
		n++
		now := s.deps.Clock.Now()
		if !s.deps.Bus.Connected() {
			// Silence says nothing while nothing can be heard. A hub refuses a request
			// for a session that it no longer has, and the request moves on.
			s.view.Confirm(now)
		}
		s.view.Expire(now)
		if n%sweepsPerRefresh == 0 {
			s.known.Refresh(now)
			s.retries.Trim(now)
			s.stats.Trim(s.view.Knows)
			s.trust.Trim(s.view.Knows)
		}
	}
}
