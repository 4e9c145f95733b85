package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/probe"
)

// Basis is why a benchmark runs.
type Basis string

// The bases.
const (
	// First is the run of a model that none was ever of.
	First Basis = "first"
	// Asked is a run that the provider asked for.
	Asked Basis = "asked"
	// Renewal is a run before the last pass is too old.
	Renewal Basis = "renewal"
	// Traffic is no run: what the offer served takes its place.
	Traffic Basis = "traffic"
	// Again is a run in the place of a void one.
	Again Basis = "again"
)

// RunState is where a benchmark run stands.
type RunState string

// The states. All but RunRunning are final.
const (
	RunRunning RunState = "running"
	RunPassed  RunState = "passed"
	RunFailed  RunState = "failed"
	RunVoid    RunState = "void"
)

// Run is a benchmark run.
type Run struct {
	ID    probe.RunID
	Offer probe.Offer
	Basis Basis
	State RunState
	// Revision grows with every step, from 1.
	Revision int64
	// Body is the canonical form of package bench, at most 4 MiB.
	Body []byte
	// NextAt is when the run wants to go on.
	NextAt time.Time
	// Findings are those of its end.
	Findings           []battery.Finding
	StartedAt, EndedAt time.Time
}

// Errors of runs.
var (
	// ErrRunning is the error for a second run of an offer.
	ErrRunning = errors.New("a benchmark of the offer is running")
	// ErrRevision is the error for a step that another replica took.
	ErrRevision = errors.New("the benchmark run has gone on meanwhile")
)

// StartRun begins a benchmark run: ID, Offer, Basis, Body and NextAt count. The same run
// again changes nothing. It fails with ErrRunning while another of the offer runs.
func (s *Store) StartRun(ctx context.Context, r Run) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		fresh, err := exec(ctx, tx, `INSERT INTO benchmark_run (run_id, provider_id, model_id, basis, body, next_at)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (run_id) DO NOTHING`,
			r.ID, r.Offer.Provider, r.Offer.Model, r.Basis, r.Body, r.NextAt)
		if err != nil || !fresh || !actor.InOperatorsCall(ctx) {
			return err
		}
		return addAct(ctx, tx, actor.OfOperator(ctx), beganBenchmark, r.Offer.Provider.String(),
			map[string]any{"model_id": r.Offer.Model, "run_id": r.ID.String()})
	})
	switch {
	case pg.IsUnique(err, "benchmark_run_one"):
		return ErrRunning
	case err != nil:
		return fmt.Errorf("begin a benchmark run: %w", err)
	}
	crash.At("verifier.run.begun")
	return nil
}

// StepRun moves a run on, from the revision in r: Body and NextAt count, and with a final
// State the findings. Of two replicas that move it at once, one does; the other is told
// ErrRevision and reads it again.
func (s *Store) StepRun(ctx context.Context, r Run) error {
	var findings []byte
	if r.State != RunRunning {
		list := r.Findings
		if list == nil {
			list = []battery.Finding{}
		}
		var err error
		if findings, err = json.Marshal(list); err != nil {
			return fmt.Errorf("write the findings of a benchmark run: %w", err)
		}
	}
	crash.At("verifier.run.before_step")
	ok, err := exec(ctx, s.pool, `UPDATE benchmark_run SET revision = revision + 1, state = $3, body = $4, next_at = $5,
			findings = $6, ended_at = CASE WHEN $3 <> 'running' THEN clock_timestamp() END
		WHERE run_id = $1 AND revision = $2 AND state = 'running'`, r.ID, r.Revision, r.State, r.Body, r.NextAt, findings)
	if err == nil && !ok {
		err = ErrRevision
	}
	if err != nil {
		return fmt.Errorf("move a benchmark run on: %w", err)
	}
	crash.At("verifier.run.stepped")
	return nil
}

const runColumns = `run_id, provider_id, model_id, basis, state, revision, body, next_at, coalesce(findings, '[]'),
	started_at, ended_at`

func scanRun(row pgx.CollectableRow) (r Run, err error) {
	var ended *time.Time
	err = row.Scan(&r.ID, &r.Offer.Provider, &r.Offer.Model, &r.Basis, &r.State, &r.Revision, &r.Body, &r.NextAt,
		jsonInto{&r.Findings}, &r.StartedAt, &ended)
	r.NextAt, r.StartedAt, r.EndedAt = r.NextAt.UTC(), r.StartedAt.UTC(), timeOf(ended)
	return r, err
}

// ErrRun is the error for a run that there is not.
var ErrRun = errors.New("no such benchmark run")

// Run returns a run, or ErrRun.
func (s *Store) Run(ctx context.Context, id probe.RunID) (Run, error) {
	list, err := collect(ctx, s.pool, scanRun, `SELECT `+runColumns+` FROM benchmark_run WHERE run_id = $1`, id)
	if err == nil && len(list) == 0 {
		err = ErrRun
	}
	if err != nil {
		return Run{}, fmt.Errorf("read a benchmark run: %w", err)
	}
	return list[0], nil
}

const dueRuns = `
	WITH busy AS (
		SELECT provider_id, count(*) AS n FROM unnest($3::uuid[]) AS provider_id GROUP BY provider_id
	), due AS (
		SELECT run_id, row_number() OVER (PARTITION BY provider_id ORDER BY next_at, run_id) + coalesce(n, 0) AS place
		FROM benchmark_run LEFT JOIN busy USING (provider_id)
		WHERE state = 'running' AND next_at <= (SELECT clock_timestamp())
	)
	SELECT ` + runColumns + ` FROM benchmark_run JOIN due USING (run_id) WHERE place <= $2
	ORDER BY next_at, run_id LIMIT $1`

// DueRuns returns the runs that want to go on now, the longest due first, at most limit, and
// of a provider at most MaxEach with those that are under way, whose providers are in
// underWay.
func (s *Store) DueRuns(ctx context.Context, limit int, underWay ...ids.ProviderID) ([]Run, error) {
	list, err := collect(ctx, s.pool, scanRun, dueRuns, bounded(limit, MaxPage), MaxEach, rawIDs(underWay))
	if err != nil {
		return nil, fmt.Errorf("read the benchmark runs that are due: %w", err)
	}
	return list, nil
}

// Runs returns the runs of a provider, of one model unless its name is empty, the last begun
// first, before a run (zero for the last), at most limit. Bodies are left out.
func (s *Store) Runs(
	ctx context.Context, provider ids.ProviderID, model string, before probe.RunID, limit int,
) ([]Run, error) {
	list, err := collect(ctx, s.pool, scanRun, `SELECT run_id, provider_id, model_id, basis, state, revision,
			''::bytea, next_at, coalesce(findings, '[]'), started_at, ended_at
		FROM benchmark_run WHERE provider_id = $1 AND ($2::text = '' OR model_id = $2)
			AND ($3::uuid IS NULL OR run_id < $3) ORDER BY run_id DESC LIMIT $4`,
		provider, model, before, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list benchmark runs: %w", err)
	}
	return list, nil
}
