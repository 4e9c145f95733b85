// Package storetest gives tests a database of the verifier whose clock they set, with two
// replicas of the store on it.
package storetest

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// Start is when the database's clock begins: a noon.
var Start = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// Env is a database with two replicas.
type Env struct {
	// Pool acts as the application's role and Owner as the owner, both by the real clock.
	Pool, Owner *pgxpool.Pool
	// Pools are those of the replicas, by the test's clock.
	Pools   [2]*pgxpool.Pool
	Stores  [2]*store.Store
	Keepers [2]*keep.Keeper
	Box     *keep.Box

	mu sync.Mutex
	n  int
}

// clockSQL puts a clock in the place of the server's for whoever has the schema first in the
// search path.
var clockSQL = []string{
	`CREATE SCHEMA clock`,
	`CREATE TABLE clock.clock (at timestamptz)`,
	`INSERT INTO clock.clock VALUES ('2026-11-21 12:00:00+00')`,
	`CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM clock.clock'`,
	`GRANT USAGE ON SCHEMA clock TO ` + store.Role,
	`GRANT SELECT ON clock.clock TO ` + store.Role,
}

// New returns a fresh database.
func New(t testing.TB) *Env {
	t.Helper()
	e := &Env{Box: keep.NewBox(archive.Key{1}, rand.Reader)}
	e.Pool = pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	e.Owner = pgtest.Owner(t, e.Pool)
	for _, sql := range clockSQL {
		e.Exec(t, sql)
	}
	t.Cleanup(func() {
		if _, err := e.Owner.Exec(context.Background(), `DROP SCHEMA clock CASCADE`); err != nil {
			t.Error(err)
		}
	})
	for i := range e.Stores {
		cfg := e.Pool.Config()
		cfg.MaxConns = 6
		cfg.ConnConfig.RuntimeParams["search_path"] = "clock, pg_catalog, " + store.Schema
		pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		e.Pools[i], e.Stores[i] = pool, store.New(pool, e.Box)
		e.Keepers[i] = keep.New(e.Stores[i], e.Box)
	}
	return e
}

// Exec runs a statement as the owner.
func (e *Env) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := e.Owner.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Pass moves the database's clock on, or back.
func (e *Env) Pass(t testing.TB, by time.Duration) {
	t.Helper()
	e.Exec(t, `UPDATE clock.clock SET at = at + $1::interval`, by)
}

// Set sets the database's clock.
func (e *Env) Set(t testing.TB, at time.Time) {
	t.Helper()
	e.Exec(t, `UPDATE clock.clock SET at = $1`, at)
}

// Count returns the number that a query reads as the owner.
func (e *Env) Count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := e.Owner.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Provider returns a new provider's id.
func Provider(t testing.TB) ids.ProviderID {
	t.Helper()
	id, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// See records offers of a provider, of judgetest.Model where no model is named.
func (e *Env) See(t testing.TB, provider ids.ProviderID, models ...string) probe.Offer {
	t.Helper()
	if len(models) == 0 {
		models = []string{judgetest.Model}
	}
	var seen []store.SeenOffer
	for _, m := range models {
		seen = append(seen, store.SeenOffer{
			Offer:     probe.Offer{Provider: provider, Model: m},
			Statement: store.Statement{Quantization: "fp16", Engine: "tinylm"},
		})
	}
	if _, err := e.Stores[0].SeeOffers(context.Background(), seen); err != nil {
		t.Fatal(err)
	}
	return seen[0].Offer
}

// Plan returns a plan of a greedy hidden probe that is due now.
func (e *Env) Plan(t testing.TB, o probe.Offer) probe.Plan {
	t.Helper()
	now, err := e.Stores[0].Now(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n++
	var id probe.ID
	copy(id[:], "probe")
	copy(id[8:], strconv.Itoa(10_000_000+e.n))
	return probe.Plan{
		ID: id, Offer: o, Kind: probe.Greedy, Flow: probe.Hidden, Purpose: probe.Evidence, DueAt: now, Greedy: true,
		PromptTokens: 50, MaxTokens: 24, Stratum: judgetest.Stratum,
	}
}

// Queue puts plans into the queue.
func (e *Env) Queue(t testing.TB, plans ...probe.Plan) {
	t.Helper()
	for _, p := range plans {
		if err := e.Stores[0].Put(context.Background(), store.QueuedProbe{Plan: p, CostNanoUSD: 7}); err != nil {
			t.Fatal(err)
		}
	}
}

// World is that of an event of an active offer.
func World(o probe.Offer, key store.EventKey, p store.ProviderStanding) standing.World {
	return standing.World{
		Offer: o, Key: string(key), Limits: ladder.DemoThresholds(), Brakes: p.Brakes(false), Rank: p.Rank,
		Penalties: p.Penalties, LastPenaltyAt: p.LastPenaltyAt, ActiveSince: Start, StatedTokens: 8_192,
	}
}

// Apply is a change by an event, as the rules have it.
func Apply(o probe.Offer, key store.EventKey, e standing.Event) store.Change {
	return func(now time.Time, before standing.State, p store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		w := World(o, key, p)
		after, out, err := before.Apply(e, now, w)
		return e, w, after, out, err
	}
}

// Advance gives an event to the first replica.
func (e *Env) Advance(t testing.TB, o probe.Offer, key store.EventKey, event standing.Event) standing.Outcome {
	t.Helper()
	out, err := e.Stores[0].Advance(context.Background(), o, key, Apply(o, key, event))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Probe queues a probe of an offer, takes it, and judges the answer, which exceeds or not.
// host is the reference that scores.
func (e *Env) Probe(t testing.TB, o probe.Offer, exceeded bool, host string) standing.Outcome {
	t.Helper()
	r := judgetest.Greedy(t, judgetest.Say{N: 1, Exceeded: exceeded, Host: host})
	plan := e.Plan(t, o)
	plan.AvoidHost = r.Plan.AvoidHost
	r.Plan = plan
	r.Answer.Served = o.Provider.String()
	e.Queue(t, plan)
	if _, err := e.Stores[0].Take(context.Background(), "a", store.MaxBatch); err != nil {
		t.Fatal(err)
	}
	return e.Advance(t, o, store.ProbeKey(plan.ID), standing.Event{Judged: &r})
}

// Compared queues a probe of an offer and takes it. It returns the event of its answer, which
// two references score: own and other are what the second says (judgetest.Score).
func (e *Env) Compared(t testing.TB, o probe.Offer, own, other float64) (store.EventKey, standing.Event) {
	t.Helper()
	r := judgetest.Greedy(t, judgetest.Say{N: 1})
	r.Plan = e.Plan(t, o)
	r.Answer.Served = o.Provider.String()
	r.Scores = append(r.Scores, judge.Score{Host: "reference-2", Class: 16,
		Raw: judgetest.Score(judgetest.Answer, 50, own, other)})
	e.Queue(t, r.Plan)
	if _, err := e.Stores[0].Take(context.Background(), "a", store.MaxBatch); err != nil {
		t.Fatal(err)
	}
	return store.ProbeKey(r.Plan.ID), standing.Event{Judged: &r}
}

// Race runs functions at once and returns their errors.
func Race(all ...func() error) []error {
	errs := make([]error, len(all))
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(len(all))
	for i, f := range all {
		done.Go(func() {
			ready.Done()
			<-begin
			errs[i] = f()
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return errs
}

// AllowPenalties calibrates judgetest's stratum far enough and turns penalties on.
func (e *Env) AllowPenalties(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	key, err := e.Stores[0].KeepStratum(ctx, judgetest.Stratum)
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := e.Stores[0].StartCalibration(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := calibration.Decode(judgetest.Calibration(t, evidence.Greedy, .1))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stores[0].FinishCalibration(ctx, run, store.Fitted{Calibration: c, Penal: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Stores[0].Set(ctx, store.Penalties, true, "operator:alice", "all is calibrated"); err != nil {
		t.Fatal(err)
	}
}
