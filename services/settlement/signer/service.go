// Package signer is the chain-signer: the one process that holds the platform's keys on
// chains. It signs for settlement, and distrusts it. README.md says what it allows.
package signer

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"svc.internal/pkg/pg"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/rpc"
	"svc.internal/services/settlement/signer/internal/signing"
	"svc.internal/services/settlement/signer/internal/store"
	"svc.internal/services/settlement/signer/tables"
)

// Deps are the parts that the service works with.
type Deps struct {
	Log    *slog.Logger
	Meters metric.MeterProvider
	DB     *pgxpool.Pool
}

// Service is the chain-signer.
type Service struct {
	log     *slog.Logger
	store   *store.Store
	signer  *signing.Signer
	metrics *metrics
}

// Migrate brings the schema in the database at url up to date.
func Migrate(ctx context.Context, url string) error { return Tables().Migrate(ctx, url) }

// Tables are what the service keeps in PostgreSQL.
func Tables() pg.Tables { return tables.Tables() }

// New opens the keys and makes the service.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	made, err := newMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	ring, err := openKeys(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var own []chain.Address
	for _, key := range ring.List() {
		own = append(own, key.Address)
		deps.Log.InfoContext(ctx, "a key is open", "key", string(key.Name), "address", key.Address.String())
	}
	var chains []policy.Chain
	for _, c := range cfg.Chains {
		allowed, err := c.policy()
		if err != nil {
			return nil, err
		}
		chains = append(chains, allowed)
	}
	kept := store.New(deps.DB)
	return &Service{
		log: deps.Log, store: kept, metrics: made,
		signer: &signing.Signer{Policy: policy.New(chains, own), Ring: ring, Store: kept},
	}, nil
}

// Register adds the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	signerv1.RegisterSignerServiceServer(r, &rpc.Signer{Signer: s.signer, Observe: s.metrics.observe})
}

// Run waits until ctx ends: all work is asked for.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ready reports whether the record can be kept, without which nothing is signed.
func (s *Service) Ready(ctx context.Context) error { return s.store.Ping(ctx) }
