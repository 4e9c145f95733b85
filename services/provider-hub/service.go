// Package providerhub is the service that holds the connections of providers: their
// accounts and keys, the WebSocket sessions of their agents, the dispatch of one request
// to one session, and the journal of what was served.
//
// New only assembles. Run opens the journal, ends what an earlier process left behind,
// and takes sockets and requests until its context ends. Then it drains: agents and
// routers are informed, streams may end within Config.DrainTimeout, usage is published,
// and the journal is closed last.
package providerhub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/challenge"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/events"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/gate"
	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/kinds"
	"svc.internal/services/provider-hub/internal/naming"
	"svc.internal/services/provider-hub/internal/peers"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/rpc"
	"svc.internal/services/provider-hub/internal/store"
	"svc.internal/services/provider-hub/internal/vendor"
)

// Schema and Role name the schema of the tables and the role that uses them.
const (
	Schema = store.Schema
	Role   = store.Role
)

// Migrate migrates the schema at url, reached as its owner, to this version.
func Migrate(ctx context.Context, url string) error {
	return Tables().Migrate(ctx, url)
}

// Tables are the service's tables in PostgreSQL.
func Tables() pg.Tables {
	return pg.Tables{Schema: Schema, Role: Role, Migrations: store.Migrations}
}

// Peppers are the peppers of the hashes in the service's schema.
var Peppers = store.Peppers

// Deps are what the service works with. All are required.
type Deps struct {
	Log    *slog.Logger
	Meters metric.MeterProvider
	Clock  clock.Clock
	Random io.Reader
	Bus    *bus.Conn
	// DB runs as Role in Schema.
	DB *pgxpool.Pool
	// Catalog tells which models are gateway models; nil leaves the kinds unknown.
	Catalog catalogv1.CatalogServiceClient
	// UsageKeys receive the keys under which usage is sealed, billing-ledger first.
	UsageKeys []KeyReceiver
}

// KeyReceiver is a service that checks the seals of usage.
type KeyReceiver = events.KeyReceiver

// Service is a hub. Its RPCs and its handler may be called at any time. Before Run has
// begun and once it drains they answer that nothing is taken.
type Service struct {
	cfg  Config
	deps Deps

	accounts     *provider.Directory
	registry     *registry.Registry
	gate         *gate.Gate
	counts       *gate.Counts
	dispatcher   *dispatch.Dispatcher
	challenges   *challenge.Runner
	usage        *events.Usage
	keys         *events.Keys
	attempts     *events.Attempts
	presence     *events.Presence
	workReceipts *events.WorkReceipts
	recorder     *presence.Recorder
	warmups      *events.Warmups
	naming       *naming.Recorder
	metrics      *metrics
	endpoints    *external.Hub
	directory    *external.Directory
	kinds        *kinds.Models
	// told publishes what the accounts of providers' users are told.
	told *accountevent.Publisher
}

// New assembles a hub, each part after the parts that it is made with: nothing is set in
// a part afterwards. It enrols the pepper in the database, and starts nothing.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.DispatchAddress == "" {
		return nil, errors.New("provider-hub: no dispatch address")
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = DefaultConfig().DrainTimeout
	}
	m, err := newMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: deps, metrics: m, counts: &gate.Counts{}, kinds: &kinds.Models{}}
	tables := store.New(deps.DB)
	secrets, err := tables.Secrets(ctx, cfg.Pepper, cfg.PepperPrevious)
	if err != nil {
		return nil, err
	}
	secrets.RenewFailed = m.renewFailed
	s.accounts = provider.NewDirectory(tables, secrets, cfg.site(), deps.Clock, deps.Random)
	s.told = &accountevent.Publisher{Outbox: tables, Bus: deps.Bus, Notes: bus.SubjectNotedHubs, Queue: "hubs",
		Log: deps.Log, Still: tables.DueAccountEvents()}
	s.recorder = presence.NewRecorder(cfg.HubID, tables, deps.Clock, deps.Log)
	s.naming = naming.NewRecorder(tables, deps.Clock, deps.Log)
	s.attempts = events.NewAttempts(cfg.HubID, deps.Bus, deps.Log)
	s.keys = events.NewKeys(cfg.HubID, deps.UsageKeys, deps.Random, deps.Clock, deps.Log)
	waiting := events.NewWaitingReceipts(deps.Clock)
	s.usage = events.NewUsage(cfg.HubID, deps.Bus, cfg.ResettleAfter, events.UsageDeps{
		Clock: deps.Clock, Log: deps.Log, Keys: s.keys, Closed: waiting.Closed, Lag: m.lag,
	})
	s.workReceipts = events.NewWorkReceipts(cfg.HubID, events.WorkReceiptDeps{
		Bus: deps.Bus, Usage: s.usage, Waiting: waiting, Secrets: cfg.proofs(), Clock: deps.Clock, Log: deps.Log,
	})
	answers := events.NewWarmAnswers(s.attempts, m.warmUp, deps.Log)
	s.registry = registry.New(s.accounts, s.recorder, answers.Heard, cfg.SessionsPerProvider)
	s.presence = events.NewPresence(cfg.HubID, cfg.DispatchAddress, deps.Clock.Now().UnixMilli(), deps.Bus, s.registry,
		deps.Log)
	s.warmups = events.NewWarmups(deps.Bus, s.registry, m.warmUp)
	s.gate = gate.New(cfg.gate(), gate.Deps{
		Registrar: s.registry, Receipts: s.workReceipts, Clock: deps.Clock, Log: deps.Log, Counts: s.counts,
		Kinds: s.kinds,
	})
	s.dispatcher = dispatch.New(cfg.attempts(), dispatch.LiveEnv(s.registry, s.workReceipts.Prove), s.usage,
		reports{m, s.naming, s.attempts}.ended, deps.Clock, deps.Log)
	s.challenges = challenge.New(s.registry, s.challenged, deps.Clock, deps.Random)
	s.endpoints, s.directory, err = newEndpoints(cfg, endpointDeps{
		tables: tables, derived: secrets.Identities, registrar: s.registry, env: s.gate.Env(), log: deps.Log,
		clock: deps.Clock, random: deps.Random, kinds: s.kinds,
	})
	if err != nil {
		return nil, err
	}
	if err := m.observe(deps.Meters, s, s.counts); err != nil {
		return nil, err
	}
	if err := s.observeClaims(deps.Meters); err != nil {
		return nil, err
	}
	return s, nil
}

// reports are the receivers of the reports of ended attempts.
type reports struct {
	metrics  *metrics
	naming   *naming.Recorder
	attempts *events.Attempts
}

// ended passes on the report of an attempt.
func (to reports) ended(r dispatch.Report) {
	to.metrics.attempt(r.Outcome)
	if r.Excess {
		to.metrics.excess.Add(context.Background(), 1)
	}
	if r.AnsweredAs != "" {
		to.naming.Heard(r.Provider, r.Model, r.AnsweredAs)
	}
	to.attempts.Add(r)
}

// challenged counts a challenge that ended, and logs it.
func (s *Service) challenged(o *challenge.Order, f *challenge.Finish) {
	s.metrics.challenged(f.End)
	s.deps.Log.Info("challenge ended", "challenge_id", o.ID, "provider_id", o.Provider.String(), "model", o.Model,
		"end", f.End.String(), "engine_status", f.Status, "duration_ms", f.Took.Milliseconds(), "error", f.Error)
}

// Register adds the gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	hubv1.RegisterDispatchServiceServer(r, rpc.NewDispatch(s.dispatcher))
	hubv1.RegisterProviderDirectoryServiceServer(r, rpc.NewDirectory(s.accounts, s.registry))
	hubv1.RegisterProviderAdminServiceServer(r, rpc.NewAdmin(s.accounts, s.registry, s.warmups))
	hubv1.RegisterProviderSelfServiceServer(r, rpc.NewSelf(s.accounts, s.registry))
	hubv1.RegisterVerdictServiceServer(r, rpc.NewVerdicts(s.accounts, s.registry))
	hubv1.RegisterProviderCollateralServiceServer(r,
		rpc.NewCollateral(s.accounts, s.registry, s.cfg.DevelopmentCollateral))
	hubv1.RegisterPayeeServiceServer(r, rpc.NewPayees(s.accounts))
	hubv1.RegisterPublicProviderServiceServer(r, &rpc.Public{Store: store.New(s.deps.DB)})
	hubv1.RegisterChallengeServiceServer(r, rpc.NewChallenge(s.challenges))
	hubv1.RegisterActAdminServiceServer(r, &rpc.Acts{Store: store.New(s.deps.DB)})
	hubv1.RegisterExternalEndpointServiceServer(r, rpc.NewEndpoints(s.directory))
	hubv1.RegisterExternalEndpointAdminServiceServer(r, rpc.NewEndpointAdmin(s.directory))
	hubv1.RegisterVendorAdminServiceServer(r,
		rpc.NewVendors(vendor.NewDirectory(store.New(s.deps.DB), s.accounts, s.directory), s.registry))
}

// Handler is the WebSocket endpoint of agents, at /, /ws and any prefix + /ws.
func (s *Service) Handler() http.Handler { return s.gate }

// Ready says what the hub lacks to serve. A database that is away is no reason, because
// live sessions are served without it, and every hub would leave at once.
func (s *Service) Ready(context.Context) error {
	if err := s.usage.Ready(); err != nil {
		return err
	}
	if !s.dispatcher.Accepting() {
		return errors.New("the hub takes no new requests")
	}
	if u := s.usage.Journal().Usage(); u.Fraction() >= journalHigh {
		return fmt.Errorf(
			"the journal is at %.0f %% of its bounds (%d of %d bytes, %d of %d attempts): billing-ledger settles too little",
			100*u.Fraction(), u.Bytes, u.QuotaBytes, u.Keys, u.MaxKeys)
	} else if u.NoSpace {
		return errors.New("the journal's disk is nearly full: no requests are taken until there is room")
	}
	return nil
}

// diskInterval is how soon it is logged that the journal's disk is full, or has room
// again.
const diskInterval = 5 * time.Second

// watchDisk logs that others fill the journal's disk, until ctx ends.
func (s *Service) watchDisk(ctx context.Context) error {
	full := false
	for range clock.Every(ctx, diskInterval) {
		now := s.usage.Journal().Usage().NoSpace
		switch {
		case now && !full:
			s.deps.Log.Error("the journal's disk is nearly full: no requests are taken until there is room", "journal",
				s.cfg.JournalDir)
		case full && !now:
			s.deps.Log.Info("the journal's disk has room again: requests are taken", "journal", s.cfg.JournalDir)
		}
		full = now
	}
	return nil
}

// journalHigh is the used part of the journal's bounds from which on the hub is not
// ready. It still serves, so that operators hear of it before requests are refused.
const journalHigh = 0.5

// Run serves until ctx ends, drains, and returns nil. A failed journal ends it with an
// error, because nothing later could be kept.
func (s *Service) Run(ctx context.Context) error {
	err := s.usage.Open(journal.Config{
		Dir: s.cfg.JournalDir, Clock: s.deps.Clock, MaxBytes: s.cfg.JournalMaxBytes, SegmentBytes: s.cfg.JournalSegmentBytes,
		MaxKeys: s.cfg.JournalMaxAttempts,
	})
	if err != nil {
		return err
	}
	// The loops outlive ctx, because they are needed while the hub drains.
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	group, loops := errgroup.WithContext(loops)
	group.Go(func() error { return s.keys.Run(loops) })
	group.Go(func() error { return s.usage.Listen(loops) })
	group.Go(func() error { return s.usage.Publish(loops) })
	group.Go(func() error { return s.attempts.Run(loops) })
	group.Go(func() error { return s.presence.Run(loops) })
	group.Go(func() error { return s.workReceipts.Run(loops) })
	group.Go(func() error { return s.recorder.Run(loops, s.qualify) })
	group.Go(func() error { return s.naming.Run(loops) })
	group.Go(func() error { return s.warmups.Run(loops) })
	group.Go(func() error { return s.recheck(loops) })
	group.Go(func() error { return s.sweep(loops) })
	group.Go(func() error { return s.watchDisk(loops) })
	group.Go(func() error { return s.told.Run(loops) })
	group.Go(func() error { return s.endpoints.Run(loops) })
	if s.deps.Catalog != nil {
		group.Go(func() error { peers.WatchKinds(loops, s.deps.Catalog, s.kinds, s.deps.Log); return nil })
	}
	s.dispatcher.Open()
	s.challenges.Open()
	s.gate.Accept()
	var cause error
	select {
	case <-ctx.Done():
	case <-loops.Done():
	case <-s.usage.Journal().Failed():
		cause = fmt.Errorf("the journal has failed: %w", s.usage.Journal().Err())
	}
	s.drain(ctx)
	stopLoops()
	return errors.Join(cause, group.Wait(), s.usage.Close())
}

// drain lets requests and challenges end, and aborts whatever does not end in time.
func (s *Service) drain(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	s.recorder.Stopping()
	s.presence.Drain()
	told := int(s.counts.Sockets.Load())
	s.dispatcher.StopAccepting() // before the agents leave, or a request would get session_gone
	s.challenges.StopAccepting()
	s.gate.Drain()
	s.endpoints.Drain()
	moving := s.registry.Moving()
	patience, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	moved, cancel := context.WithTimeout(patience, s.cfg.movingTime(told))
	defer cancel()
	if err := s.drained(patience); err != nil {
		s.dispatcher.Abort()
		s.challenges.Abort()
		last, cancel := context.WithTimeout(ctx, abortTimeout)
		defer cancel()
		if err := s.drained(last); err != nil {
			s.deps.Log.Warn("requests are cut off", "error", err)
		}
	}
	s.registry.AwaitLeft(moved, moving)
	paced := min(closeSpread, time.Duration(s.counts.Sockets.Load())*closePause)
	closing, cancel := context.WithTimeout(ctx, closeTimeout+paced)
	defer cancel()
	if err := s.gate.Close(closing); err != nil {
		s.deps.Log.Warn("sockets are cut off", "error", err)
	}
}

// drained waits until requests and challenges have ended or ctx has.
func (s *Service) drained(ctx context.Context) error {
	return errors.Join(s.dispatcher.Drain(ctx), s.challenges.Drain(ctx))
}

const (
	// abortTimeout is how long attempts that must end may take to be journalled.
	abortTimeout = 15 * time.Second
	// closeTimeout is how long agents may take to read why they are closed, beyond the
	// time in which sessions are closed: a pause each, and closeSpread at most.
	closeTimeout = 3 * time.Second
	closePause   = 2 * time.Millisecond
	closeSpread  = 20 * time.Second
	// recheckInterval is how soon a hub notices an operator's call to another hub.
	recheckInterval = 5 * time.Second
	// sweepInterval is how late a probation is judged, and sweepTime how long a sweep may
	// take.
	sweepInterval = time.Minute
	sweepTime     = 45 * time.Second
)

// sweep applies what time alone brings to providers, until ctx ends.
func (s *Service) sweep(ctx context.Context) error {
	for range clock.Every(ctx, sweepInterval) {
		s.sweepOnce(ctx)
	}
	return nil
}

func (s *Service) sweepOnce(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	s.swept(s.accounts.Sweep(limited))
}

// qualify activates the providers for which only a machine was missing.
func (s *Service) qualify(ctx context.Context) { s.swept(s.accounts.Qualify(ctx)) }

// swept applies changes of providers that happened by themselves to the sessions here.
func (s *Service) swept(changed []provider.Account, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		s.deps.Log.Warn("providers were not looked after", "error", err)
	}
	for _, a := range changed {
		s.deps.Log.Info("a provider was looked after", "provider_id", a.ID, "status", a.Status)
		s.metrics.swept(a.Status)
		s.registry.Apply(a.Standing())
	}
}

// recheck reads the state of keys and providers again until ctx ends.
func (s *Service) recheck(ctx context.Context) error {
	for range clock.Every(ctx, recheckInterval) {
		if err := s.registry.Recheck(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.Warn("sessions were not checked again", "error", err)
		}
	}
	return nil
}
