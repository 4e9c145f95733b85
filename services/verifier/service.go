// Package verifier decides whether providers serve the model, the quantization and the
// context window that they state. It probes them as a consumer would, compares their answers
// with those of references, keeps sealed evidence, and tells routers, hubs and settlement
// what follows. The rules are in the packages below; this package puts them together.
package verifier

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/effects"
	"svc.internal/services/verifier/internal/events"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/house"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/rpc"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/traffic"
	"svc.internal/services/verifier/internal/work"
)

// Schema and Role are the service's own in a shared database.
const (
	Schema = store.Schema
	Role   = store.Role
)

// Deps are the parts the service works with. All are needed.
type Deps struct {
	Log    *slog.Logger
	Meters metric.MeterProvider
	Clock  clock.Clock
	Bus    *bus.Conn
	DB     *pgxpool.Pool

	Catalog       catalogv1.CatalogServiceClient
	PublicCatalog catalogv1.PublicCatalogServiceClient
	House         billingv1.HouseAccountServiceClient
	Verdicts      hubv1.VerdictServiceClient
	Penalties     settlementv1.PenaltyServiceClient
	// Hubs finds the client of the hub at a dispatch address. It neither blocks nor dials
	// anew for each call.
	Hubs func(dispatchAddress string) (hubv1.ChallengeServiceClient, error)
}

// Service is the verifier.
type Service struct {
	cfg     Config
	deps    Deps
	metrics *metrics

	store  *store.Store
	keeper *keep.Keeper
	edge   *flow.Edge
	house  *house.House

	offers   *offers.View
	traffic  *traffic.Counter
	catalog  *peers.Catalog
	cover    *work.Cover
	listener *events.Listener
	usage    *events.Usage
	reporter *events.Reporter
	loops    loops
	switches *switches
	// time is the database's clock.
	time *store.Clock
}

// Migrate brings the schema in the database at url up to date.
func Migrate(ctx context.Context, url string) error {
	return Tables().Migrate(ctx, url)
}

// Tables are what the service keeps in PostgreSQL.
func Tables() pg.Tables {
	return pg.Tables{Schema: Schema, Role: Role, Migrations: store.Migrations}
}

// Register adds the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	actions := &work.Decisions{Mover: s.loops.mover, Benchmarks: s.loops.benchmarks, Calibrations: s.loops.calibrations}
	verifierv1.RegisterVerifierAdminServiceServer(r, &rpc.Admin{
		Store: s.store, Keeper: s.keeper, Offers: s.offers, Actions: actions,
	})
	verifierv1.RegisterActAdminServiceServer(r, &rpc.Acts{Store: s.store})
	verifierv1.RegisterVerifierSelfServiceServer(r, &rpc.Self{
		Store: s.store, Keeper: s.keeper, Actions: actions, Gateway: node.EdgeGateway,
	})
}

// Ready returns nil once the database answers and the models are known.
func (s *Service) Ready(ctx context.Context) error {
	if !s.cfg.BenchmarksWaived && !s.catalog.Known() {
		return fmt.Errorf("the models are not known yet")
	}
	return s.store.Ping(ctx)
}

// settlement opens penalties and asks for them.
func (s *Service) settlement() peers.Penalties { return peers.Penalties{Client: s.deps.Penalties} }

// effectsWorker carries out what verdicts bring about.
func (s *Service) effectsWorker(replica string) *effects.Worker {
	return &effects.Worker{
		Replica: replica, Outbox: work.Outbox{Store: s.store}, Hubs: peers.Verdicts{Client: s.deps.Verdicts},
		Settlement: s.settlement(), Log: s.deps.Log, Ended: s.metrics.effectEnded,
	}
}
