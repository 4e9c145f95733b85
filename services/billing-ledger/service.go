// Package billingledger owns consumer accounts, their keys and their money.
//
// It admits requests by holding the most that they can cost, settles them once from the
// usage that hubs publish, and keeps a double-entry ledger that anybody can recompute
// (Verify). All amounts are integers in nano-USD.
//
// The requests of a busy account are admitted from memory, by the one replica that owns a slice of
// the account's credit; their holds are written at the next turn, which begins within 200 ms, many in one
// transaction (package slice). All others are admitted by the exact path, in batches under the lock on the
// account's wallet: three replicas admit some 10,000 requests a second for one account so, on two cores
// with fsync on (BenchmarkLedger).
package billingledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/demand"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/entries"
	"svc.internal/services/billing-ledger/internal/events"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/house"
	"svc.internal/services/billing-ledger/internal/idempotency"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/operator"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/payable"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/playground"
	"svc.internal/services/billing-ledger/internal/posting"
	"svc.internal/services/billing-ledger/internal/price"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Schema and Role are the service's own in a shared database.
const (
	Schema = store.Schema
	Role   = store.Role
)

// partitionBack is for how many past days partitions are made: for yesterday, to which
// the first requests of a new ledger belong when it starts at midnight. There are no
// more, because PostgreSQL plans a statement for all partitions, so each further one
// costs every statement time.
const partitionBack = 1

// Service is billing-ledger.
type Service struct {
	cfg          Config
	deps         Deps
	store        *store.Store
	prices       *price.Book
	admitter     *hold.Admitter
	expirer      *hold.Expirer
	catalog      *events.Catalog
	consumer     *events.Consumer
	workReceipts *events.WorkReceipts
	metrics      *metrics
	tickets      *usage.Tickets
	slices       *sliceWork
	drift        metric.Int64Gauge
	compared     metric.Int64Counter

	renewer   *hold.Renewer
	concluder *hold.Concluder
	keys      *key.Keys
	accounts  *account.Accounts
	house     *house.Accounts
	poster    *posting.Poster
	months    *posting.Months
	plans     *plan.Plans
	claims    *idempotency.Claims
	visitors  *playground.Visitors
	users     *userWork
	operators *operator.Operators
	demand    *demand.Cache
	rates     *limit.Rates
	pruner    *pruner
	trials    *entries.Trials
	// lastCompared is what the last comparison of the ledger with itself found.
	lastCompared entries.Compared
	cards        *cardWork
	webhooks     *webhookWork

	subscriptions *subscriptionWork
	passbooks     *passbookWork
	stats         *statsWork
}

// Migrate brings the schema in the database at url up to date.
func Migrate(ctx context.Context, url string) error {
	return Tables().Migrate(ctx, url)
}

// Tables returns the service's tables in PostgreSQL.
func Tables() pg.Tables {
	return pg.Tables{Schema: Schema, Role: Role, Migrations: store.Migrations, More: []string{"kept"},
		Extensions: []string{"btree_gist"}}
}

// Report is the result of Verify; its Drift is 0 for a sound ledger.
type Report = audit.Report

// Verify recomputes every invariant of the ledger in db, which must be opened for Schema
// and Role with a statement timeout that fits the size of the ledger.
func Verify(ctx context.Context, db *pgxpool.Pool) (Report, error) {
	return audit.Run(ctx, store.New(db, limit.Defaults{}, store.Terms{}))
}

// New makes the service; Run starts it.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Meters.Meter("svc.internal/services/billing-ledger"))
	if err != nil {
		return nil, fmt.Errorf("make the instruments: %w", err)
	}
	st := store.New(deps.DB, cfg.limits(), cfg.terms())
	prices := &price.Book{}
	peppers, err := store.Peppers.Enrol(ctx, deps.DB, cfg.Pepper, cfg.PepperPrevious)
	if err != nil {
		return nil, err
	}
	proven, err := proofs(ctx, st, deps.Random, deps.Clock)
	if err != nil {
		return nil, err
	}
	slices, err := newSliceWork(cfg.Slices, deps, st)
	if err != nil {
		return nil, err
	}
	consumer := &events.Consumer{
		Bus: deps.Bus, Seals: proven.seals, Log: deps.Log,
		Settler: &usage.Settler{Store: st, Tickets: proven.tickets, Pins: slices, Clock: deps.Clock},
		Batch:   cfg.SettleBatch, Observe: m.settled, ObserveHeld: m.heldEarning, ObserveLine: m.booked,
	}
	s := &Service{
		cfg: cfg, deps: deps, store: st, prices: prices, metrics: m, tickets: proven.tickets, slices: slices,
		admitter: hold.NewAdmitter(hold.Config{
			Batch: cfg.AdmitBatch, Queue: cfg.AdmitQueue, Writers: cfg.AdmitWriters, Timeout: cfg.AdmitTimeout,
		}, hold.Deps{Prices: prices, Store: st, Slices: slices.slices(), Observe: m.admitted}),
		expirer:  newExpirer(cfg, deps, st, consumer, m),
		catalog:  &events.Catalog{Client: deps.Catalog, Book: prices, Log: deps.Log},
		consumer: consumer,
		workReceipts: &events.WorkReceipts{Bus: deps.Bus, Keeper: &orphan.Keeper{Store: st, Log: deps.Log},
			Voids: &orphan.Voids{Store: st, Log: deps.Log}, Log: deps.Log, Unwritten: st.Unwritten, Clock: deps.Clock},
		renewer: &hold.Renewer{Store: st, Pins: slices},
		concluder: &hold.Concluder{
			Store: st, Pins: slices, Clock: deps.Clock,
			Observe: func(n int) { m.released.Add(context.Background(), int64(n)) },
		},
		keys: &key.Keys{
			Store: st, Peppers: peppers, Clock: deps.Clock, Random: deps.Random, MaxKeys: cfg.MaxKeys,
			Announce: events.Keys{Bus: deps.Bus, Log: deps.Log}.Changed, RenewFailed: m.renewFailed,
		},
		accounts: &account.Accounts{Store: st, Clock: deps.Clock, Random: deps.Random},
		plans:    &plan.Plans{Store: st},
		claims:   newClaims(cfg, st, m),
		demand:   demand.NewCache(st, deps.Clock),
		rates:    &limit.Rates{Store: st, Calls: limit.NewSemaphore(rateCalls)},
		pruner:   newPruner(st, cfg.RetentionDays, deps.Log),
		trials:   entries.NewTrials(st, deps.Clock),
	}
	s.addHouse()
	if s.users, err = newUserWork(cfg, deps, st, s.accounts, s.keys); err != nil {
		return nil, err
	}
	if err := s.addWork(proven); err != nil {
		return nil, err
	}
	return s, s.newDrift()
}

// addHouse makes the work on postings, months, the platform's own accounts and visitors.
func (s *Service) addHouse() {
	s.poster = &posting.Poster{Store: s.store, Mark: s.store.Mark, Clock: s.deps.Clock, Random: s.deps.Random}
	s.months = &posting.Months{Store: s.store, Clock: s.deps.Clock, Random: s.deps.Random}
	s.house = &house.Accounts{
		Store: s.store, Accounts: s.accounts, Keys: s.keys, Clock: s.deps.Clock, Random: s.deps.Random,
		Daily: money.NanoUSD(s.cfg.VerificationDailyUSD) * money.USD,
	}
	s.visitors = &playground.Visitors{
		Store: s.store, Visits: &limit.Visitors{Store: s.store, Calls: limit.NewSemaphore(visitCalls)},
		Openings: &limit.Visitors{Store: s.store, Calls: limit.NewSemaphore(openingCalls)}, Accounts: s.accounts,
		Keys: s.keys, Clock: s.deps.Clock, Random: s.deps.Random, Budget: money.NanoUSD(s.cfg.PlaygroundDailyUSD) * money.USD,
	}
}

// newClaims returns what answers repeated requests once.
func newClaims(cfg Config, st *store.Store, m *metrics) *idempotency.Claims {
	return &idempotency.Claims{
		Store:   st,
		Reads:   limit.NewFairSemaphore[ids.KeyID](readCalls, claimsOfKey, claimsWaiting),
		New:     limit.NewFairSemaphore[ids.KeyID](claimCalls, claimsOfKey, claimsWaiting),
		Running: limit.NewFairSemaphore[ids.KeyID](runningCalls, runningOfKey, claimsWaiting),
		Quota:   idempotency.Quota{OfAccount: idempotency.KeptOfAccount, InAll: cfg.KeptBytes},
		Observe: m.answered,
	}
}

// addWork makes the work on operators, on payments by card, on subscriptions, on passbooks and
// on webhooks.
func (s *Service) addWork(p proven) (err error) {
	deps := s.deps
	if s.operators, err = newOperators(s.keys.Peppers, deps, s.store); err != nil {
		return err
	}
	s.cards, err = newCardWork(s.cfg.Card, cardDeps{store: s.store, clock: deps.Clock, random: deps.Random, log: deps.Log,
		secret: p.webhooks, fingerprints: p.cards, observe: s.metrics.cardAlarm,
		plans: planNews{store: store.Subscriptions{Store: s.store}, newEntry: s.newEntry}})
	if err != nil {
		return err
	}
	s.subscriptions = newSubscriptionWork(subscriptionDeps{store: s.store, cards: s.cards, counters: s.plans,
		clock: deps.Clock, random: deps.Random, log: deps.Log, observe: s.metrics.cardAlarm})
	s.passbooks, err = newPassbookWork(s.cfg.Passbook, passbookDeps{store: s.store, clock: deps.Clock, log: deps.Log,
		meter: deps.Meters.Meter("svc.internal/services/billing-ledger"), secret: p.cursors})
	if err != nil {
		return err
	}
	s.stats = newStatsWork(s.cfg.Passbook, s.store, deps)
	s.webhooks, err = newWebhookWork(s.cfg.Webhooks, webhookDeps{store: s.store, bus: deps.Bus, sealer: p.endpoints,
		clock: deps.Clock, random: deps.Random, log: deps.Log, meter: deps.Meters.Meter("svc.internal/services/billing-ledger")})
	return err
}

// newExpirer returns what ends holds without a report, and opens and settles their reviews.
func newExpirer(cfg Config, deps Deps, st *store.Store, consumer *events.Consumer, m *metrics) *hold.Expirer {
	reviews := events.Reviews{Bus: deps.Bus, Key: consumer.Seals.Own}
	reviewer := &orphan.Reviewer{Store: st, Publish: reviews.Publish, Log: deps.Log}
	return &hold.Expirer{
		Interval: cfg.ExpireInterval, Batch: cfg.ExpireBatch, Grace: cfg.ExpireGrace,
		Ready: ready(deps.Bus, consumer, st), Clock: deps.Clock, Log: deps.Log,
		Steps: []hold.Step{
			{Name: "expire", Still: st.Due(store.DueHolds),
				Do: func(ctx context.Context, asOf time.Time, limit int) (int, error) {
					n, err := st.ExpireHolds(ctx, asOf, limit)
					m.expired.Add(ctx, int64(n))
					return n, err
				}},
			{Name: "review", Still: st.Due(store.DueHolds), Do: hold.Whenever(reviewer.Open)},
			{Name: "reclaim", Still: st.Due(store.DueSlices), Do: st.ReclaimSlices},
			// A report makes one late, and no time does.
			{Name: "give back", Still: st.Still(pg.LongRest),
				Do: hold.Whenever(func(ctx context.Context, limit int) (int, error) {
					return usage.CorrectLateReports(ctx, st, deps.Log, limit)
				})},
			{Name: "publish again", Still: st.Due(store.DuePublications), Do: hold.Whenever(reviewer.Settled)},
		},
	}
}

// Register adds the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	billingv1.RegisterKeyServiceServer(r, &rpc.Keys{Keys: s.keys})
	billingv1.RegisterConsumerKeyServiceServer(r, &rpc.ConsumerKeys{Keys: &key.Own{
		Keys: s.keys, Store: s.store, KnownModel: s.prices.Known,
	}})
	billingv1.RegisterConsumerLimitServiceServer(r, &rpc.ConsumerLimits{Spending: &account.Spending{Store: s.store},
		Defaults: s.cfg.limits()})
	admission := &rpc.Admission{Admitter: s.admitter, Renewer: s.renewer, Concluder: s.concluder, Rates: s.rates,
		Tickets: s.tickets, Pins: promptWriter{s.slices}, Owners: s.slices.owners,
		Address: s.deps.Address}
	billingv1.RegisterAdmissionServiceServer(r, admission)
	billingv1.RegisterSliceServiceServer(r, &rpc.Slices{Admission: admission, Own: s.slices.owners.Own,
		Recaller: s.slices})
	billingv1.RegisterReceiptServiceServer(r, &rpc.Receipts{Store: s.store, Clock: s.deps.Clock})
	accounts := &rpc.Accounts{Accounts: s.accounts, Keys: s.keys, Plans: s.plans,
		Earnings: s.store, NewEntry: s.newEntry}
	billingv1.RegisterAccountAdminServiceServer(r, accounts)
	billingv1.RegisterAccountOverviewAdminServiceServer(r, &rpc.Overview{Accounts: accounts,
		Overview: &account.Overview{Store: s.store, NewEntry: s.newEntry}, Keys: s.store,
		Standings: s.store, Requests: s.store})
	billingv1.RegisterAccountFreezeAdminServiceServer(r, &rpc.AccountFreezes{Freezes: &account.Freezes{Store: s.store}})
	agreed := store.Agreements{Store: s.store}
	agreements := &enterprise.Agreements{Store: agreed}
	contacts := &enterprise.Contacts{Store: agreed, Clock: s.deps.Clock, Random: s.deps.Random}
	billingv1.RegisterEnterpriseAdminServiceServer(r, &rpc.Enterprise{Agreements: agreements, Contacts: contacts})
	billingv1.RegisterConsumerTermsServiceServer(r, &rpc.ConsumerTerms{Agreements: agreements, Contacts: contacts})
	billingv1.RegisterVendorPayableAdminServiceServer(r, &rpc.VendorPayables{
		Payables: &payable.Payables{Store: s.store, NewEntry: s.newEntry},
	})
	billingv1.RegisterBalanceServiceServer(r, &rpc.Balances{Store: s.store})
	billingv1.RegisterAccrualServiceServer(r, &rpc.Accruals{Store: s.store})
	billingv1.RegisterIdempotencyServiceServer(r, &rpc.Idempotency{Claims: s.claims})
	billingv1.RegisterVisitorServiceServer(r, &rpc.Visits{Visitors: s.visitors})
	s.users.register(r)
	billingv1.RegisterOperatorServiceServer(r, &rpc.Operators{Operators: s.operators})
	billingv1.RegisterOperatorAdminServiceServer(r, &rpc.OperatorAdmin{Operators: s.operators})
	billingv1.RegisterActAdminServiceServer(r, &rpc.Acts{Store: s.store})
	billingv1.RegisterLedgerAdminServiceServer(r, &rpc.Ledger{Trials: s.trials, Entries: s.store,
		Compared: &s.lastCompared})
	billingv1.RegisterStreamAdminServiceServer(r, &rpc.Streams{
		Streams: events.Streams{Bus: s.deps.Bus, Service: node.BillingLedger},
	})
	billingv1.RegisterDemandServiceServer(r, &rpc.Demand{Cache: s.demand, Figures: s.stats.cache})
	billingv1.RegisterHouseAccountServiceServer(r, &rpc.House{Accounts: s.house})
	billingv1.RegisterPostingServiceServer(r, &rpc.Posting{Poster: s.poster, Months: s.months})
	billingv1.RegisterUsageKeyServiceServer(r, &rpc.UsageKeys{Ring: s.consumer.Seals.Ring})
	s.cards.register(r)
	s.subscriptions.register(r)
	s.passbooks.register(r)
	s.stats.register(r)
	s.webhooks.register(r)
}

// Run admits, settles, expires and keeps prices and partitions up to date until ctx ends.
// Then it ends the work under way.
func (s *Service) Run(ctx context.Context) error {
	watch, err := s.watchFigures()
	if err != nil {
		return err
	}
	defer func() { _ = watch.Unregister() }() // it fails only for a closed meter
	age, err := s.passbooks.watch()
	if err != nil {
		return err
	}
	defer func() { _ = age.Unregister() }()
	s.makePartitions(ctx)
	s.tellStandby(ctx)

	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range slices.Concat([]func(context.Context){s.catalog.Run, s.admitter.Run, s.slices.run, s.expirer.Run,
		s.keepPartitions, s.sealer().Run, s.reconcile, s.pruner.run, s.demand.Run, s.subscriptions.worker.Run,
		s.users.mail.Run}, s.cards.loops(), s.passbooks.loops(), s.stats.loops(), s.webhooks.loops()) {
		group.Go(func() error {
			loop(ctx)
			return nil
		})
	}
	group.Go(func() error { return s.consumer.Run(ctx) })
	group.Go(func() error { return s.workReceipts.Run(ctx) })
	group.Go(func() error { return s.webhooks.consumer.Run(ctx) })
	return group.Wait()
}

// newEntry makes the id of an entry.
func (s *Service) newEntry() (ids.EntryID, error) {
	return ids.NewEntry(s.deps.Clock.Now(), s.deps.Random)
}

func (s *Service) keepPartitions(ctx context.Context) {
	for range clock.Every(ctx, s.cfg.PartitionInterval) {
		s.makePartitions(ctx)
	}
}

// makePartitions may fail, because the default partition takes every row that has no
// other.
func (s *Service) makePartitions(ctx context.Context) {
	made, err := s.store.EnsurePartitions(ctx, partitionBack, s.cfg.PartitionDays)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.deps.Log.ErrorContext(ctx, "partitions of settled usage could not be made", "error", err)
	case made > 0:
		s.deps.Log.InfoContext(ctx, "partitions of settled usage made", "count", made)
	}
}

// Ready reports whether requests can be admitted and settled.
func (s *Service) Ready(ctx context.Context) error {
	if !s.prices.Loaded() {
		return errors.New("billing-ledger: the catalog has not been read yet")
	}
	if !s.admitter.Running() {
		return errors.New("billing-ledger: admission is not running")
	}
	return s.store.Ping(ctx)
}

// ready returns Ready for hold.Expirer.
func ready(conn *bus.Conn, consumer *events.Consumer, st *store.Store) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		if !conn.Connected() {
			return time.Time{}, errors.New("usage cannot arrive")
		}
		asOf, err := st.Now(ctx)
		if err == nil {
			err = consumer.UpToDate(ctx)
		}
		return asOf, err
	}
}
