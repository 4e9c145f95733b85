// Package settlement owns what providers have earned: one line for each
// served request, and the standing comparison of these lines with the money
// that billing-ledger credited.
package settlement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
	billingv1 "svc.internal/proto/svc/billing/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/events"
	"svc.internal/services/settlement/internal/reconcile"
	"svc.internal/services/settlement/internal/rpc"
	"svc.internal/services/settlement/internal/store"
)

// Schema and Role are the service's own in a shared database.
const (
	Schema = store.Schema
	Role   = store.Role
)

// Config of the service.
type Config struct {
	// ReconcileEvery is the pause between two comparisons with the ledger.
	ReconcileEvery time.Duration `yaml:"reconcile_every" env:"SVC_SETTLEMENT_RECONCILE_EVERY"`
}

// DefaultConfig compares every minute.
func DefaultConfig() Config { return Config{ReconcileEvery: time.Minute} }

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	if c.ReconcileEvery <= 0 {
		return errors.New("settlement: reconcile_every must be above zero")
	}
	return nil
}

// Deps are the parts the service works with.
type Deps struct {
	Log      *slog.Logger
	Meters   metric.MeterProvider
	Clock    clock.Clock
	Bus      *bus.Conn
	DB       *pgxpool.Pool
	Accruals billingv1.AccrualServiceClient
}

// Service is settlement.
type Service struct {
	cfg      Config
	deps     Deps
	store    *store.Store
	comparer *rpc.LedgerComparer
	consumer *events.Consumer
	drift    metric.Int64Gauge
}

// Migrate brings the schema in the database at url up to date.
func Migrate(ctx context.Context, url string) error {
	return pg.Migrate(ctx, url, Schema, Role, store.Migrations)
}

// New makes the service; Run starts it.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	drift, err := deps.Meters.Meter("svc.internal/services/settlement").Int64Gauge("svc.settlement.standing_differences",
		metric.WithDescription("Provider days on which earning lines and the ledger's accruals have differed in two comparisons in a row."))
	if err != nil {
		return nil, fmt.Errorf("make the drift gauge: %w", err)
	}
	st := store.New(deps.DB)
	return &Service{
		cfg: cfg, deps: deps, store: st, drift: drift,
		comparer: rpc.NewLedgerComparer(st, deps.Accruals, deps.Clock),
		consumer: events.NewConsumer(deps.Bus, st, deps.Log),
	}, nil
}

// Register adds the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	settlementv1.RegisterReconciliationServiceServer(r, rpc.NewReconciliation(s.comparer, s.deps.Clock))
}

// Run consumes usage and compares with the ledger until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.consumer.Run(ctx) })
	group.Go(func() error {
		s.watch(ctx)
		return nil
	})
	return group.Wait()
}

// Ready tells whether the service can record what it hears.
func (s *Service) Ready(ctx context.Context) error {
	return s.store.Ping(ctx)
}

// watch compares with the ledger again and again and says aloud what stays
// different.
func (s *Service) watch(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.ReconcileEvery)
	defer ticker.Stop()
	var watch reconcile.Watch
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		report, err := s.comparer.Compare(ctx, rpc.FirstDay(s.deps.Clock.Now()))
		if err != nil {
			s.deps.Log.WarnContext(ctx, "reconciliation could not be made", "error", err)
			continue
		}
		standing := watch.Standing(report)
		s.drift.Record(ctx, int64(len(standing)))
		for _, d := range standing[:min(len(standing), 10)] {
			s.deps.Log.ErrorContext(ctx, "earning lines and accruals differ",
				"day", d.Day.Format(time.DateOnly), "provider_id", d.ProviderID.String(),
				"lines_usd", d.Lines.Payout.String(), "accruals_usd", d.Accruals.Payout.String(),
				"lines", d.Lines.Requests, "accruals", d.Accruals.Requests)
		}
	}
}
