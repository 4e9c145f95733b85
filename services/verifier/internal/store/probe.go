package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/probe"
)

// ProbeState is where a probe is between its plan and its end.
type ProbeState string

// The states of a probe.
const (
	// Queued waits for its time, or for the next try.
	Queued ProbeState = "queued"
	// Leased is with a replica until its lease is over.
	Leased ProbeState = "leased"
	// Done was carried out, and Void never will be. Both are final.
	Done ProbeState = "done"
	Void ProbeState = "void"
)

// ProbeStates returns every state.
func ProbeStates() []ProbeState { return []ProbeState{Queued, Leased, Done, Void} }

// probeTransitions is the whole machine. The database has the same pairs.
var probeTransitions = map[ProbeState][]ProbeState{
	Queued: {Leased, Void, Done}, // done by the answer of a replica that was late
	Leased: {Leased, Queued, Done, Void},
}

// After returns the states that follow.
func (s ProbeState) After() []ProbeState { return slices.Clone(probeTransitions[s]) }

// The bounds of the queue.
const (
	// Lease is how long a replica has for a probe. A recall of a long prompt takes minutes.
	Lease = 15 * time.Minute
	// MaxTries is how often a probe is taken before it is void.
	MaxTries = 3
	// MaxEach bounds the probes of a provider that are under way at a time, and the runs, so
	// that few slow providers do not hold every place.
	MaxEach = 2
	// firstPause and nextPause lie before the second and the third try.
	firstPause = time.Minute
	nextPause  = 10 * time.Minute
)

// QueuedProbe is a plan with what only the queue needs to know.
type QueuedProbe struct {
	Plan probe.Plan
	// Shape is what a provider sees of a hidden probe beside its text.
	Shape cover.Shape
	// CostNanoUSD is what the probe is expected to cost.
	CostNanoUSD int64
}

// ErrBatch is the error for a call with more than MaxBatch rows.
var ErrBatch = errors.New("the batch is too large")

const insertProbe = `
INSERT INTO probe (probe_id, provider_id, model_id, kind, flow, purpose, run_id, shape, cost_nano_usd, plan, due_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $12 THEN least($11, clock_timestamp()) ELSE $11 END)
ON CONFLICT (probe_id) DO NOTHING`

// Put adds probes to the queue, all or none. A probe that is known already stays as it is.
// It fails with probe.ErrPlan for what cannot be carried out, and with ErrBatch.
func (s *Store) Put(ctx context.Context, probes ...QueuedProbe) error {
	return s.put(ctx, putting{}, probes)
}

// Begin adds probes and leases them to a replica at once, whenever they are due: for what
// one carries out itself, like the questions of a benchmark. A probe that is known already
// stays as it is.
func (s *Store) Begin(ctx context.Context, replica string, probes ...QueuedProbe) error {
	return s.put(ctx, putting{replica: replica}, probes)
}

// putting is how probes are added.
type putting struct {
	// allow reports whether they are added, nil for always.
	allow func(pgx.Tx) (bool, error)
	// replica gets them at once unless it is empty.
	replica string
}

const leaseProbes = `
UPDATE probe SET state = 'leased', tries = tries + 1, replica = $1, leased_until = clock_timestamp() + $2::interval
WHERE probe_id = ANY ($3) AND state = 'queued' AND tries = 0`

// put adds probes, all or none.
func (s *Store) put(ctx context.Context, how putting, probes []QueuedProbe) error {
	if len(probes) > MaxBatch {
		return fmt.Errorf("%w: %d probes", ErrBatch, len(probes))
	}
	rows, list := make([][]any, len(probes)), make([]probe.ID, len(probes))
	for i, q := range probes {
		var err error
		if rows[i], err = probeRow(q); err != nil {
			return err
		}
		list[i] = q.Plan.ID
	}
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if how.allow != nil {
			if ok, err := how.allow(tx); err != nil || !ok {
				return err
			}
		}
		batch := &pgx.Batch{}
		for _, row := range rows {
			batch.Queue(insertProbe, append(row, how.replica != "")...)
		}
		if how.replica != "" {
			batch.Queue(leaseProbes, how.replica, Lease, rawIDs(list))
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("put %d probes into the queue: %w", len(probes), err)
	}
	return nil
}

func probeRow(q QueuedProbe) ([]any, error) {
	p := q.Plan
	if err := p.Check(); err != nil {
		return nil, err
	}
	plan, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write a plan: %w", err)
	}
	var run *probe.RunID
	if p.Run != (probe.RunID{}) {
		run = &p.Run
	}
	var shape *int16
	if p.Flow == probe.Hidden {
		code := shapeCode(q.Shape)
		shape = &code
	}
	return []any{p.ID, p.Offer.Provider, p.Offer.Model, p.Kind, p.Flow, p.Purpose, run, shape, q.CostNanoUSD, plan,
		p.DueAt}, nil
}

// Probes whose lease is over and whose tries are spent end first. Whoever holds a row
// otherwise is waited for by nobody. The clock is read once, so that the indexes find the
// rows.
const (
	endSpentProbes = `
		UPDATE probe SET state = 'void', replica = NULL, leased_until = NULL, reason = 'no replica finished it',
			ended_at = clock_timestamp()
		WHERE probe_id IN (SELECT probe_id FROM probe
			WHERE state = 'leased' AND leased_until <= (SELECT clock_timestamp()) AND tries >= $1
			ORDER BY leased_until LIMIT $2 FOR UPDATE SKIP LOCKED)`
	takeProbes = `
		WITH busy AS (
			SELECT provider_id, count(*) AS n FROM probe
			WHERE state = 'leased' AND leased_until > (SELECT clock_timestamp()) AND purpose = 'evidence' GROUP BY provider_id
		), waiting AS (
			SELECT probe_id, provider_id, next_at AS since FROM probe
			WHERE state = 'queued' AND next_at <= (SELECT clock_timestamp())
				AND provider_id NOT IN (SELECT provider_id FROM busy WHERE n >= $5)
			ORDER BY next_at, probe_id LIMIT $2 FOR UPDATE SKIP LOCKED
		), lost AS (
			SELECT probe_id, provider_id, leased_until AS since FROM probe
			WHERE state = 'leased' AND leased_until <= (SELECT clock_timestamp()) AND tries < $4
				AND provider_id NOT IN (SELECT provider_id FROM busy WHERE n >= $5)
			ORDER BY leased_until, probe_id LIMIT $2 FOR UPDATE SKIP LOCKED
		), placed AS (
			SELECT probe_id, since,
				row_number() OVER (PARTITION BY provider_id ORDER BY since, probe_id) + coalesce(n, 0) AS place
			FROM (SELECT * FROM waiting UNION ALL SELECT * FROM lost) AS u LEFT JOIN busy USING (provider_id)
		), due AS (
			SELECT probe_id FROM placed WHERE place <= $5 ORDER BY since, probe_id LIMIT $2
		)
		UPDATE probe p SET state = 'leased', tries = p.tries + 1, replica = $1, leased_until = clock_timestamp() +
			$3::interval
		FROM due WHERE p.probe_id = due.probe_id RETURNING p.plan`
)

// Take leases probes that are due to a replica, the longest due first, at most limit, and of
// a provider so many that at most MaxEach are leased. Questions of a benchmark, which is
// bounded by itself, do not count, and replicas that look at the same moment may exceed it.
// A probe whose lease is over is taken like one that is due. A probe that was taken MaxTries
// times without an end is void.
func (s *Store) Take(ctx context.Context, replica string, limit int) ([]probe.Plan, error) {
	limit = bounded(limit, MaxBatch)
	var plans []probe.Plan
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, endSpentProbes, MaxTries, limit); err != nil {
			return err
		}
		var err error
		plans, err = collect(ctx, tx, scanPlan, takeProbes, replica, limit, Lease, MaxTries, MaxEach)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take probes: %w", err)
	}
	if len(plans) > 0 {
		crash.At("verifier.probe.taken")
	}
	return plans, nil
}

func scanPlan(row pgx.CollectableRow) (p probe.Plan, err error) {
	var plan []byte
	if err := row.Scan(&plan); err != nil {
		return probe.Plan{}, err
	}
	err = json.Unmarshal(plan, &p)
	return p, err
}

// Done ends a probe that a replica carried out and that moves no standing. A probe that
// Advance judged is done already. It does nothing where another replica has the probe.
func (s *Store) Done(ctx context.Context, replica string, id probe.ID) error {
	_, err := s.pool.Exec(ctx, `UPDATE probe SET state = 'done', replica = NULL, leased_until = NULL,
		ended_at = clock_timestamp() WHERE probe_id = $1 AND state = 'leased' AND replica = $2`, id, replica)
	if err != nil {
		return fmt.Errorf("end a probe: %w", err)
	}
	return nil
}

// DropProbe ends a probe that cannot be carried out: it is void. It does nothing where
// another replica has the probe.
func (s *Store) DropProbe(ctx context.Context, replica string, id probe.ID, reason string) error {
	_, err := s.pool.Exec(ctx, `UPDATE probe SET state = 'void', replica = NULL, leased_until = NULL, reason = $3,
		ended_at = clock_timestamp() WHERE probe_id = $1 AND state = 'leased' AND replica =
			$2`, id, replica, cut(reason, 200))
	if err != nil {
		return fmt.Errorf("void a probe: %w", err)
	}
	return nil
}

// GiveBack returns a probe to the queue after a try that the platform spoilt: for a minute
// after the first, ten minutes after the second. After the third it is void. It does nothing
// where another replica has the probe.
func (s *Store) GiveBack(ctx context.Context, replica string, id probe.ID, reason string) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE probe SET replica = NULL, leased_until = NULL, reason = $3,
			state = CASE WHEN tries >= $4 THEN 'void' ELSE 'queued' END,
			ended_at = CASE WHEN tries >= $4 THEN clock_timestamp() END,
			next_at = clock_timestamp() + CASE WHEN tries < 2 THEN $5::interval ELSE $6::interval END
		WHERE probe_id = $1 AND state = 'leased' AND replica = $2`,
		id, replica, cut(reason, 200), MaxTries, firstPause, nextPause)
	if err != nil {
		return fmt.Errorf("give a probe back: %w", err)
	}
	return nil
}

// Return gives probes back that were not sent, because the replica drains. Their tries are
// not counted.
func (s *Store) Return(ctx context.Context, replica string, list ...probe.ID) error {
	_, err := s.pool.Exec(ctx, `UPDATE probe SET state = 'queued', tries = tries - 1, replica = NULL, leased_until = NULL
		WHERE probe_id = ANY ($1) AND state = 'leased' AND replica = $2`, rawIDs(list), replica)
	if err != nil {
		return fmt.Errorf("return %d probes: %w", len(list), err)
	}
	return nil
}

func rawIDs[T ~[16]byte](list []T) [][16]byte {
	raw := make([][16]byte, len(list))
	for i, id := range list {
		raw[i] = id
	}
	return raw
}

// DropQueued voids the queued probes of an offer, for instance because its provider left.
func (s *Store) DropQueued(ctx context.Context, o probe.Offer, reason string) (int, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE probe SET state = 'void', reason = $3, ended_at = clock_timestamp()
		WHERE probe_id IN (SELECT probe_id FROM probe WHERE provider_id = $1 AND model_id = $2 AND state = 'queued'
			LIMIT $4 FOR UPDATE SKIP LOCKED)`,
		o.Provider, o.Model, cut(reason, 200), MaxBatch)
	if err != nil {
		return 0, fmt.Errorf("void the probes of an offer: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
