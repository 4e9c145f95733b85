package verifier

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/claims"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/events"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/sealed"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/work"
)

const (
	// maxProbing bounds the probes under way, maxRunning the benchmark runs of which questions
	// are. A run asks up to bench.MaxCapacity at once, and a hub takes 64 challenges.
	maxProbing = 32
	maxRunning = 8
	// measureInterval is the pause between two measurements of the database.
	measureInterval = 15 * time.Second
	houseInterval   = time.Minute
	// clockInterval is the pause between two looks at the database's clock.
	clockInterval = 10 * time.Second
	keepInterval  = time.Hour
)

// newReplica names this process among the replicas.
func newReplica() (string, error) {
	var name [8]byte
	if _, err := rand.Read(name[:]); err != nil {
		return "", fmt.Errorf("name the replica: %w", err)
	}
	return "verifier-" + hex.EncodeToString(name[:]), nil
}

// build puts the loops together.
func (s *Service) build(settings sealed.Settings, matcher *pairing.Matcher, box *claims.Box) error {
	replica, err := newReplica()
	if err != nil {
		return err
	}
	siblings, err := parseSiblings(s.cfg.Siblings)
	if err != nil {
		return err
	}
	sibling := func(model string) string { return siblings[model] }
	book, log := work.NewBook(s.store), s.deps.Log
	times := flow.DefaultConfig()
	times.ClaimTimeout = s.cfg.ClaimWait
	runner := flow.New(times, flow.Deps{
		Offers: s.offers, Hubs: peers.Hubs{Dial: s.deps.Hubs}, Edge: s.edge, Keys: s.house,
		Writer: plan.NewWriter(settings.Secret, settings.Bank), Claims: box, Calibrations: book,
		Earlier: work.Earlier{Store: s.store, Keeper: s.keeper}, Files: s.catalog, Siblings: sibling, Now: s.store.Now,
		Secret: settings.Secret,
	})
	mover := &work.Mover{
		Store: s.store, Limits: ladder.Thresholds{Watch: settings.Watch, Notice: settings.Notice}, Offers: s.offers,
		Models: models{s.catalog}, Book: book, Log: log, Changed: s.reporter.Changed,
		Observer: work.Observer{Probed: s.metrics.probed, Moved: s.metrics.moved},
	}
	probing, clk, haste := s.switches.probing, s.deps.Clock, work.Haste(s.cfg.Haste)
	ratios := &work.Ratios{Runner: runner, Offers: s.offers, Clock: clk, Log: log, Haste: haste, Enabled: probing}
	s.loops = loops{
		mover: mover,
		seen:  &work.Seen{Store: s.store, Mover: mover, Offers: s.offers, Clock: clk, Log: log, Haste: haste},
		planning: &work.Planning{Store: s.store, Planner: plan.New(settings.Secret), Mover: mover, Offers: s.offers,
			Prices: s.prices, Traffic: s.traffic, Cover: s.cover, Clock: clk, Log: log, BudgetADay: s.cfg.budget(),
			Ratios: ratios, Haste: haste, Sibling: sibling, Enabled: probing},
		queue: &work.Queue{Store: s.store, Runner: runner, Mover: mover, Pairing: matcher, Clock: s.time, Log: log,
			Replica: replica, Parallel: maxProbing, Haste: haste, Enabled: probing},
		benchmarks: &work.Benchmarks{Store: s.store, Runner: runner, Mover: mover, Offers: s.offers, Traffic: s.traffic,
			Clock: clk, Log: log, Replica: replica, Parallel: maxRunning, Quick: s.cfg.Development, Ratios: ratios,
			Haste: haste, Enabled: probing},
		calibrations: &work.Calibrations{Store: s.store, Runner: runner, Offers: s.offers, Models: models{s.catalog},
			Book: book, Log: log, Challenges: s.cfg.Challenges, Ratios: ratios, Haste: haste,
			Sibling: sibling, Enabled: probing},
		ratios:    ratios,
		ticks:     &work.Ticks{Store: s.store, Mover: mover, Log: log, Haste: haste},
		pairs:     &work.Pairs{Matcher: matcher, Mover: mover, Clock: s.time, Log: log, Haste: haste},
		guard:     &work.Guard{Store: s.store, Mover: mover, Log: log, Haste: haste, Suspected: s.suspected},
		penalties: &work.Penalties{Store: s.store, Mover: mover, Settlement: s.settlement(), Log: log, Haste: haste},
		traffic:   &work.Traffic{Store: s.store, Counter: s.traffic, Clock: clk, Log: log, Haste: haste},
		effects:   s.effectsWorker(replica),
		waived:    &work.Waived{Offers: s.offers, Hub: peers.Verdicts{Client: s.deps.Verdicts}, Clock: clk, Log: log},
	}
	return nil
}

func (s *Service) prices(model string) money.Rates {
	m, _ := s.catalog.Model(model)
	return m.Rates
}

func (s *Service) suspected(ctx context.Context, n int) { s.metrics.suspected.Record(ctx, int64(n)) }

// listen puts together what is heard on NATS.
func (s *Service) listen(matcher *pairing.Matcher, box *claims.Box) {
	absurd := func(ctx context.Context, _ probe.Offer) { s.metrics.absurd.Add(ctx, 1) }
	s.usage = events.NewUsage(s.deps.Bus, s.deps.Log, s.deps.Clock, absurd)
	s.listener = events.NewListener(events.Deps{
		Bus: s.deps.Bus, Clock: s.deps.Clock, Log: s.deps.Log, Offers: s.offers, Traffic: s.traffic, Pairing: matcher,
		PairClock: s.time, Claims: box, Shapes: s.shapes, Penalty: s.penaltyChanged, Sync: s.reporter.All,
	})
}

// shapes keeps what requests looked like in an hour.
func (s *Service) shapes(ctx context.Context, hour time.Time, counts map[cover.Shape]int64) {
	err := s.cover.Report(hour, counts)
	if err == nil {
		err = s.store.KeepShapes(ctx, hour, counts)
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "the shapes of an hour could not be kept", "error", err)
	}
}

func (s *Service) penaltyChanged(ctx context.Context, p events.Penalty) {
	if err := s.loops.penalties.Changed(ctx, p.Verdict, p.State); err != nil {
		s.deps.Log.WarnContext(ctx, "the change of a penalty could not be taken over, and will be asked for",
			"verdict_id", p.Verdict.String(), "error", err)
	}
}

// Run works until ctx ends. Then it gives back what is under way and waits for that.
func (s *Service) Run(ctx context.Context) error {
	defer s.edge.Close()
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{s.listener.Run, s.usage.Run, s.reporter.Run} {
		group.Go(func() error { return run(ctx) })
	}
	l := s.loops
	if s.cfg.BenchmarksWaived {
		group.Go(func() error {
			l.waived.Run(ctx)
			return nil
		})
		return group.Wait()
	}
	s.warm(ctx)
	for _, run := range []func(context.Context){
		s.catalog.Run, l.seen.Run, l.planning.Run, l.queue.Run, l.benchmarks.Run, l.calibrations.Run, l.ratios.Run,
		l.ticks.Run, l.pairs.Run, l.traffic.Run, l.guard.Run, l.penalties.Run, l.effects.Run, s.readClock, s.tendHouse,
		s.tendEvidence, s.measure,
	} {
		group.Go(func() error {
			run(ctx)
			return nil
		})
	}
	return group.Wait()
}

// warm reads what a replica begins with. What fails is read later, or missed for a week.
func (s *Service) warm(ctx context.Context) {
	err := errors.Join(s.cover.Load(ctx, s.store), s.loops.mover.Book.Refresh(ctx), s.loops.traffic.Load(ctx),
		s.time.Read(ctx))
	if err != nil && ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "what other replicas know could not be read whole", "error", err)
	}
}

// readClock keeps s.time right until ctx ends.
func (s *Service) readClock(ctx context.Context) {
	for range clock.Every(ctx, work.Haste(s.cfg.Haste).Of(clockInterval)) {
		if err := s.time.Read(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "the database's clock could not be read, and will be", "error", err)
		}
	}
}

func (s *Service) tendHouse(ctx context.Context) {
	for range clock.Every(ctx, work.Haste(s.cfg.Haste).Of(houseInterval)) {
		if !s.switches.probing(ctx) {
			continue
		}
		if err := s.house.Tend(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "house accounts could not be tended, and will be", "error", err)
		}
	}
}

func (s *Service) tendEvidence(ctx context.Context) {
	for range clock.Every(ctx, keepInterval) {
		s.traffic.Forget(s.deps.Clock.Now())
		_, err := s.keeper.Tend(ctx)
		err = errors.Join(err, s.store.ForgetShapes(ctx))
		if err != nil && ctx.Err() == nil {
			s.deps.Log.ErrorContext(ctx, "evidence could not be tended, and will be", "error", err)
		}
	}
}

// measure measures what the database has, at every interval until ctx ends.
func (s *Service) measure(ctx context.Context) {
	refused := int64(0)
	for range clock.Every(ctx, measureInterval) {
		now := s.listener.Refused()
		s.metrics.refused.Add(ctx, now-refused)
		refused = now
		_, connected, _ := s.offers.Size()
		s.metrics.offers.Record(ctx, int64(connected))
		if err := s.measureStore(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "the database could not be measured", "error", err)
		}
	}
}

func (s *Service) measureStore(ctx context.Context) error {
	at, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	queue, err := s.store.Queue(ctx)
	if err != nil {
		return err
	}
	outbox, err := s.store.Outbox(ctx)
	if err != nil {
		return err
	}
	levels, err := s.store.Levels(ctx)
	if err != nil {
		return err
	}
	spent, err := s.store.SpentNanoUSD(ctx, at.Truncate(24*time.Hour))
	if err != nil {
		return err
	}
	waiting, err := s.store.Verdicts(ctx, store.VerdictFilter{Waiting: true}, probe.VerdictID{}, store.MaxPage)
	if err != nil {
		return err
	}
	s.metrics.measure(ctx, queue, outbox, levels)
	s.metrics.spent.Record(ctx, spent)
	s.metrics.waiting.Record(ctx, int64(len(waiting)))
	return nil
}
