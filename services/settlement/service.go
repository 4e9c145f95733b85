// Package settlement owns what providers have earned: one line for each
// served request, and the standing comparison of these lines with the money
// that billing-ledger credited. It also owns penalties, which the verifier
// proposes and operators decide when a provider appeals.
package settlement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/usageseal"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/events"
	"svc.internal/services/settlement/internal/fill"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/reconcile"
	"svc.internal/services/settlement/internal/rpc"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/tables"
)

// Schema and Role are the service's own in a shared database.
const (
	Schema = store.Schema
	Role   = store.Role
)

// DefaultConfig compares every minute, and fills what is missing after two.
func DefaultConfig() Config {
	return Config{ReconcileInterval: time.Minute, FillAfter: 2 * time.Minute, MaxDepositAddresses: 1_000_000,
		Batch: BatchConfig{Interval: 30 * time.Second, Patience: time.Hour}, Payouts: defaultPayoutConfig(),
		Collateral: CollateralConfig{CardMinimumCents: 2_000}, Reserves: ReserveConfig{Interval: time.Hour}}
}

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	var faults []error
	if c.ReconcileInterval <= 0 {
		faults = append(faults, errors.New("settlement: reconcile_interval must be above zero"))
	}
	if c.FillAfter < time.Second {
		faults = append(faults, errors.New("settlement: fill_after must be at least a second"))
	}
	faults = append(faults, c.checkChains(), c.checkDeposits(), c.Batch.validate(), c.Collateral.validate(),
		c.Payouts.validate(), c.Reserves.validate())
	return errors.Join(faults...)
}

// CheckListeners returns a fault for each address that is not on loopback and each setting of development: collateral
// that nobody holds must not let strangers earn, and their money must not rest on the word of one RPC and on fixed
// prices. The addresses are all on which the process listens; an empty address is no listener.
func (c Config) CheckListeners(addresses ...string) error {
	var faults []error
	for _, setting := range []struct {
		on        bool
		name, why string
	}{
		{c.DevelopmentCollateral, "development_collateral (SVC_SETTLEMENT_DEVELOPMENT_COLLATERAL)",
			"it counts collateral that nobody holds"},
		{c.Development, "development (SVC_SETTLEMENT_DEVELOPMENT)",
			"it believes a single RPC of a chain, takes fixed prices, and lets any claim pass for covered"},
	} {
		for _, address := range addresses {
			if !setting.on || address == "" {
				continue
			}
			if err := serve.Loopback(address); err != nil {
				faults = append(faults, fmt.Errorf("settlement: %s is for a process that listens on loopback alone, because %s: %w",
					setting.name, setting.why, err))
			}
		}
	}
	return errors.Join(faults...)
}

// Service is settlement.
type Service struct {
	cfg      Config
	deps     Deps
	store    *store.Store
	comparer *peers.LedgerComparer
	consumer *events.Consumer
	filler   *fill.Filler
	metrics  *metrics
	ring     *usageseal.Ring

	penalties  *penaltyWork
	collateral *collateralWork
	batches    *batchWork
	chains     *chainWork
	positions  *positionWork
	payouts    *payoutWork
	sweeps     *sweepWork
	reserves   *reserveWork
	revaluing  *revaluationWork
	adopter    *adopt.Adopter
	accounts   *accountevent.Publisher
}

// Migrate brings the schema in the database at url up to date.
func Migrate(ctx context.Context, url string) error {
	return Tables().Migrate(ctx, url)
}

// Tables are what the service keeps in PostgreSQL.
func Tables() pg.Tables {
	return tables.Tables()
}

// New makes the service; Run starts it.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	made, err := newMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	st := store.New(deps.DB)
	settled := peers.NewSettledRequests(deps.Accruals, func(requestID string, err error) {
		deps.Log.Error("a settled request cannot become an earning line", "request_id", requestID, "error", err)
	})
	ring := usageseal.NewRing(st, deps.Clock)
	s := &Service{
		cfg: cfg, deps: deps, store: st, metrics: made,
		comparer: peers.NewLedgerComparer(st, deps.Accruals, deps.Clock),
		consumer: events.NewConsumer(deps.Bus, st, deps.Log).CheckedBy(ring, deps.Clock), ring: ring,
		filler: &fill.Filler{Ledger: settled, Store: st, After: cfg.FillAfter},
	}
	s.accounts = &accountevent.Publisher{Outbox: store.AccountEvents{Store: st}, Bus: deps.Bus,
		Notes: bus.SubjectNotedSettlement, Queue: node.Settlement, Log: deps.Log, Still: st.Due(store.DueAccountEvents)}
	terms, err := cfg.terms()
	if err != nil {
		return nil, err
	}
	s.penalties = newPenaltyWork(store.Penalties{Store: st, Terms: terms}, deps.Bus, deps.Log, made)
	s.penalties.still = st.Due(store.DuePenalties)
	s.collateral = newCollateralWork(cfg.DevelopmentCollateral, store.Collateral{Store: st},
		peers.NewCollateralHub(deps.Collateral), deps.Bus, deps.Log)
	s.collateral.still = st.Due(store.DueCollateral)
	if s.batches, err = newBatchWork(cfg.Batch, store.Batches{Store: st}, deps, made); err != nil {
		return nil, err
	}
	if s.chains, err = newChainWork(cfg, st, deps); err != nil {
		return nil, err
	}
	if s.payouts, err = newPayoutWork(cfg, st, s.chains, deps); err != nil {
		return nil, err
	}
	if s.adopter, err = newAdopter(cfg, st, s.chains, deps); err != nil {
		return nil, err
	}
	if s.sweeps, err = newSweepWork(cfg, st, s.chains, s.payouts, deps); err != nil {
		return nil, err
	}
	if s.reserves, err = newReserveWork(cfg, st, s.chains, deps); err != nil {
		return nil, err
	}
	if s.revaluing, err = newRevaluationWork(st, s.chains, deps); err != nil {
		return nil, err
	}
	s.positions, err = newPositionWork(cfg, st, deps, collateralParts{block: s.chains.blockAt, keeper: s.penalties.keeper,
		quotes: coinQuotes{terms, s.chains.quotes}, pipeline: s.payouts.preparer()})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Register adds the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	settlementv1.RegisterReconciliationServiceServer(r, rpc.NewReconciliation(s.comparer, s.deps.Clock))
	settlementv1.RegisterUsageKeyServiceServer(r, &rpc.UsageKeys{Ring: s.ring})
	parts := rpc.PenaltyParts{Store: s.positions.parts, Terms: s.positions.store.Terms}
	settlementv1.RegisterPenaltyServiceServer(r, &rpc.Penalties{
		Keeper: s.penalties.keeper, Parts: parts, Verifier: node.Verifier, Gateway: node.EdgeGateway,
	})
	s.chains.register(r)
	settlementv1.RegisterPenaltyAdminServiceServer(r, &rpc.PenaltyAdmin{Keeper: s.penalties.keeper, Parts: parts})
	settlementv1.RegisterCollateralServiceServer(r, &rpc.Collateral{Store: s.positions.refunds,
		Terms: s.positions.store.Terms, Ask: s.positions.Ask, Cards: s.deps.Cards})
	settlementv1.RegisterCollateralAdminServiceServer(r, &rpc.CollateralAdmin{
		Confirm: s.positions.payer.ConfirmBank, Store: s.positions.refunds, Terms: s.positions.store.Terms,
	})
	settlementv1.RegisterEarningServiceServer(r, &rpc.Earnings{
		Store: s.batches.store, Ledger: s.deps.Accruals, Clock: s.deps.Clock, Signer: s.deps.Signer,
	})
	settlementv1.RegisterEarningAdminServiceServer(r, &rpc.EarningAdmin{Store: s.batches.store})
	settlementv1.RegisterPayoutServiceServer(r, &rpc.Payouts{Keeper: s.payouts.keeper})
	settlementv1.RegisterPayoutAdminServiceServer(r, &rpc.PayoutAdmin{Keeper: s.payouts.keeper, Halts: s.payouts.store})
	settlementv1.RegisterReserveAdminServiceServer(r, &rpc.ReserveAdmin{Findings: s.reserves.store})
	settlementv1.RegisterRecoveryAdminServiceServer(r, &rpc.Recovery{Adopter: s.adopter, Calls: s.payouts.store})
	settlementv1.RegisterActAdminServiceServer(r, &rpc.Acts{Store: s.store})
}

// Run consumes usage, compares with the ledger, and executes penalties that are due, until
// ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.consumer.Run(ctx) })
	group.Go(func() error {
		s.watch(ctx)
		return nil
	})
	group.Go(func() error {
		s.penalties.run(ctx)
		return nil
	})
	group.Go(func() error { return s.collateral.run(ctx) })
	group.Go(func() error { return s.accounts.Run(ctx) })
	group.Go(func() error {
		s.batches.run(ctx)
		return nil
	})
	group.Go(func() error {
		s.chains.run(ctx)
		return nil
	})
	group.Go(func() error {
		s.positions.run(ctx)
		return nil
	})
	group.Go(func() error {
		s.payouts.run(ctx)
		return nil
	})
	group.Go(func() error {
		s.sweeps.run(ctx)
		return nil
	})
	group.Go(func() error {
		s.reserves.run(ctx)
		return nil
	})
	group.Go(func() error {
		s.revaluing.run(ctx)
		return nil
	})
	return group.Wait()
}

// Ready reports whether the service can record what it hears.
func (s *Service) Ready(ctx context.Context) error {
	return s.store.Ping(ctx)
}

// watch fills in lines whose usage never came, compares with the ledger, and logs what
// stays different, at every interval until ctx ends.
func (s *Service) watch(ctx context.Context) {
	var watch reconcile.Watch
	for range clock.Every(ctx, s.cfg.ReconcileInterval) {
		s.fill(ctx)
		report, err := s.comparer.Compare(ctx, rpc.FirstDay(s.deps.Clock.Now()))
		if err != nil {
			s.deps.Log.WarnContext(ctx, "reconciliation could not be made", "error", err)
			continue
		}
		persistent := watch.Persistent(report)
		s.metrics.compared(ctx, report, len(persistent))
		s.filler.Differ(persistent, s.deps.Clock.Now())
		for _, d := range persistent[:min(len(persistent), 10)] {
			s.deps.Log.ErrorContext(ctx, "earning lines and accruals differ",
				"day", d.Day.Format(time.DateOnly), "provider_id", d.ProviderID.String(),
				"lines_usd", d.Lines.Payout.String(), "accruals_usd", d.Accruals.Payout.String(),
				"lines", d.Lines.Requests, "accruals", d.Accruals.Requests, "filled", d.Filled)
		}
	}
}

// fill makes a pass of the filler, unless usage waits in the stream that may bring the
// missing lines by itself.
func (s *Service) fill(ctx context.Context) {
	if s.consumer.Behind() {
		return
	}
	outcome, err := s.filler.Pass(ctx, s.deps.Clock.Now())
	if err != nil {
		s.deps.Log.WarnContext(ctx, "earning lines could not be filled in from the ledger", "error", err)
	}
	s.metrics.mended(ctx, outcome)
	if outcome.Filled > 0 {
		s.deps.Log.WarnContext(ctx, "earning lines were filled in from the ledger, because their usage never came",
			"lines", outcome.Filled)
	}
	if n := len(outcome.Corrected); n > 0 {
		s.deps.Log.WarnContext(ctx, "the ledger settled other counts than those heard first; the ledger's count", "lines", n,
			"request_ids", some(outcome.Corrected))
	}
	if n := len(outcome.Excluded); n > 0 {
		s.deps.Log.ErrorContext(ctx, "earning lines are held out because the ledger has settled no such requests", "lines", n,
			"request_ids", some(outcome.Excluded))
	}
}

// some returns the first of many requests, for a line of the log.
func some(requests []ids.RequestID) []string {
	text := make([]string, min(len(requests), 10))
	for i := range text {
		text[i] = requests[i].String()
	}
	return text
}
