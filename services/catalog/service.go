// Package catalog owns the models on offer: what each is, its immutable price
// versions, the files of its weights, and what the providers now online
// guarantee for it. It keeps the whole catalog in memory and pushes all but the
// files to the services that serve requests.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/catalog/internal/change"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/peers"
	"svc.internal/services/catalog/internal/rpc"
	"svc.internal/services/catalog/internal/snapshot"
	"svc.internal/services/catalog/internal/store"
	"svc.internal/services/catalog/internal/weights"
)

// Schema and Role are the service's own in a shared database.
const (
	Schema = store.Schema
	Role   = store.Role
)

// Config of the service.
type Config struct {
	// SupplyInterval is the pause between two questions to the router about what
	// is online, and so the most often that a change of counts is pushed.
	SupplyInterval time.Duration `yaml:"supply_interval" env:"SVC_CATALOG_SUPPLY_INTERVAL"`
	// SupplyExpiry is how long the router's last answer applies while it is
	// away; after that nobody counts as online.
	SupplyExpiry time.Duration `yaml:"supply_expiry" env:"SVC_CATALOG_SUPPLY_EXPIRY"`
	// RepairInterval is how often the store is looked at although no change was
	// heard of.
	RepairInterval time.Duration `yaml:"repair_interval" env:"SVC_CATALOG_REPAIR_INTERVAL"`
	// ListenRetry is the pause before a lost connection to the store's changes
	// is made again.
	ListenRetry time.Duration `yaml:"listen_retry" env:"SVC_CATALOG_LISTEN_RETRY"`
}

// DefaultConfig asks the router each second and trusts its answer for as long
// as the router trusts a presence report.
func DefaultConfig() Config {
	return Config{SupplyInterval: time.Second, SupplyExpiry: 30 * time.Second, RepairInterval: 30 * time.Second,
		ListenRetry: time.Second}
}

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	if c.SupplyInterval <= 0 || c.SupplyExpiry <= 0 || c.RepairInterval <= 0 || c.ListenRetry <= 0 {
		return errors.New("catalog: supply_interval, supply_expiry, repair_interval and listen_retry must be above zero")
	}
	return nil
}

// Deps are the parts the service works with.
type Deps struct {
	Log    *slog.Logger
	Meters metric.MeterProvider
	Clock  clock.Clock
	Random io.Reader
	DB     *pgxpool.Pool
	Router routerv1.RouterServiceClient
}

// Service is catalog.
type Service struct {
	cfg      Config
	deps     Deps
	store    *store.Store
	keeper   *snapshot.Keeper
	changes  *change.Scheduler
	watchers metric.Int64UpDownCounter
}

// Migrate brings the schema in the database at url up to date.
func Migrate(ctx context.Context, url string) error {
	return Tables().Migrate(ctx, url)
}

// Tables are what the service keeps in PostgreSQL.
func Tables() pg.Tables {
	return pg.Tables{Schema: Schema, Role: Role, Migrations: store.Migrations}
}

// New makes the service; Run starts it.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	st := store.New(deps.DB)
	s := &Service{cfg: cfg, deps: deps, store: st}
	s.changes = &change.Scheduler{Store: st, Clock: deps.Clock, Random: deps.Random, Log: deps.Log,
		Still: clock.Both(clock.WithinMinute(deps.Clock), st.ChangeDue())}
	s.keeper = snapshot.NewKeeper(
		snapshot.Config{SupplyInterval: cfg.SupplyInterval, SupplyExpiry: cfg.SupplyExpiry,
			RepairInterval: cfg.RepairInterval},
		snapshot.Deps{Entries: st, Supplies: peers.RouterSupply{Router: deps.Router}, Clock: deps.Clock, Log: deps.Log})
	if err := s.instruments(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Service) instruments() error {
	meter := s.deps.Meters.Meter("svc.internal/services/catalog")
	var err error
	if s.watchers, err = meter.Int64UpDownCounter("svc.catalog.watchers",
		metric.WithDescription("Services that are watching the catalog.")); err != nil {
		return fmt.Errorf("make the watcher counter: %w", err)
	}
	if _, err = meter.Int64ObservableGauge("svc.catalog.models",
		metric.WithDescription("Models in the catalog as it is served."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if current, _, err := s.keeper.Current(); err == nil {
				o.Observe(int64(len(current.Models)))
			}
			return nil
		})); err != nil {
		return fmt.Errorf("make the model gauge: %w", err)
	}
	if _, err = meter.Float64ObservableGauge("svc.catalog.supply_age", metric.WithUnit("s"),
		metric.WithDescription("Time since the router last said what is online."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			if age, known := s.keeper.SupplyAge(); known {
				o.Observe(age.Seconds())
			}
			return nil
		})); err != nil {
		return fmt.Errorf("make the supply gauge: %w", err)
	}
	return nil
}

// Register adds the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	editor := &entry.Editor{Store: s.store, Clock: s.deps.Clock, Random: s.deps.Random}
	catalogv1.RegisterCatalogServiceServer(r, rpc.NewCatalog(s.keeper, func(delta int64) {
		s.watchers.Add(context.Background(), delta)
	}))
	catalogv1.RegisterPublicCatalogServiceServer(r, rpc.NewPublic(s.keeper, s.deps.Router))
	catalogv1.RegisterCatalogAdminServiceServer(r, rpc.NewAdmin(editor, s.changes,
		&weights.Editor{Store: s.store}, s.keeper, s.deps.Log))
	catalogv1.RegisterActAdminServiceServer(r, &rpc.Acts{Store: s.store})
}

// Run keeps the catalog in memory up to date, and applies scheduled changes, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		s.keeper.Run(ctx)
		return nil
	})
	group.Go(func() error {
		s.listen(ctx)
		return nil
	})
	group.Go(func() error {
		s.changes.Run(ctx)
		return nil
	})
	return group.Wait()
}

// Ready reports whether there is a catalog to serve. Once there is, it goes on
// being served from memory, whatever becomes of the store.
func (s *Service) Ready(context.Context) error {
	_, _, err := s.keeper.Current()
	return err
}

// listen passes the store's changes on, again and again.
func (s *Service) listen(ctx context.Context) {
	for {
		err := s.store.Listen(ctx, s.keeper.Hint)
		if ctx.Err() != nil {
			return
		}
		s.deps.Log.WarnContext(ctx, "changes of the catalog are not heard; it is looked at from time to time",
			"error", err, "look_every", s.cfg.RepairInterval)
		timer := time.NewTimer(s.cfg.ListenRetry)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}
