package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
)

// EffectKind is what another service is told of a verdict.
type EffectKind string

// The kinds of effects.
const (
	// OpenPenalty has settlement escrow a share of the collateral.
	OpenPenalty EffectKind = "open_penalty"
	// Expel has the hub remove the provider, Reinstate undo that.
	Expel     EffectKind = "expel"
	Reinstate EffectKind = "reinstate"
	// ReportBenchmark tells the hub whether a benchmark of the provider counts.
	ReportBenchmark EffectKind = "report_benchmark"
)

// EffectKinds returns every kind.
func EffectKinds() []EffectKind { return []EffectKind{OpenPenalty, Expel, Reinstate, ReportBenchmark} }

// The bounds of the outbox.
const (
	// EffectLease is how long a replica has for an effect.
	EffectLease = 5 * time.Minute
	// firstEffectPause doubles with each failed try up to maxEffectPause.
	firstEffectPause = time.Second
	maxEffectPause   = 10 * time.Minute
)

// Effect is a verdict's effect on another service that is to be carried out.
type Effect struct {
	ID   int64
	Kind EffectKind
	// Subject is the id by which settlement and hub know it: that of the verdict, and of
	// Reinstate that of the verdict that removed the provider.
	Subject probe.VerdictID
	// Revision grows with every verdict of the provider.
	Revision int64
	Tries    int
	Verdict  standing.Verdict
	// Leaf is that of the verdict's own piece of evidence, for settlement's evidence hash.
	Leaf [32]byte
	// PassedAt is when the benchmark of the provider was passed that counts longest, the
	// zero time where none counts. It is read when the effect is taken.
	PassedAt  time.Time
	CreatedAt time.Time
	// Problem is why the last try failed.
	Problem string
}

// The oldest effect of a provider that is not done goes first, and alone. A refused one does
// not keep the others waiting.
const takeEffects = `
WITH due AS (
	SELECT e.effect_id FROM effect e
	WHERE e.state = 'pending' AND e.next_at <= (SELECT clock_timestamp())
		AND (e.leased_until IS NULL OR e.leased_until <= (SELECT clock_timestamp()))
		AND NOT EXISTS (SELECT FROM effect b
			WHERE b.provider_id = e.provider_id AND b.effect_id < e.effect_id AND b.state = 'pending')
	ORDER BY e.effect_id LIMIT $2 FOR UPDATE OF e SKIP LOCKED
), taken AS (
	UPDATE effect e SET tries = e.tries + 1, replica = $1, leased_until = clock_timestamp() + $3::interval
	FROM due WHERE e.effect_id = due.effect_id RETURNING e.*
)
SELECT ` + effectColumns + ` FROM taken e ` + effectJoins + ` ORDER BY e.effect_id`

const (
	effectColumns = `e.effect_id, e.kind, e.subject, e.revision, e.tries, v.body, p.leaf, e.created_at,
		coalesce(e.problem, ''),
		(SELECT max(s.passed_at) FROM standing s WHERE s.provider_id = e.provider_id)`
	effectJoins = `JOIN verdict v USING (verdict_id)
		JOIN evidence p ON p.provider_id = v.provider_id AND p.model_id = v.model_id AND p.number = v.number`
)

func scanEffect(row pgx.CollectableRow) (e Effect, err error) {
	var leaf []byte
	var passed *time.Time
	err = row.Scan(&e.ID, &e.Kind, &e.Subject, &e.Revision, &e.Tries, jsonInto{&e.Verdict}, &leaf, &e.CreatedAt,
		&e.Problem, &passed)
	copy(e.Leaf[:], leaf)
	e.CreatedAt, e.PassedAt = e.CreatedAt.UTC(), timeOf(passed)
	return e, err
}

// TakeEffects leases effects to a replica, at most limit, the oldest first. Those of one
// provider are taken one at a time and in order.
func (s *Store) TakeEffects(ctx context.Context, replica string, limit int) ([]Effect, error) {
	list, err := collect(ctx, s.pool, scanEffect, takeEffects, replica, bounded(limit, MaxPage), EffectLease)
	if err != nil {
		return nil, fmt.Errorf("take effects: %w", err)
	}
	return list, nil
}

// ErrEffect is the error for an effect that is not with the replica.
var ErrEffect = errors.New("the effect is not leased to this replica")

// EffectDone records that an effect was carried out. It fails with ErrEffect where another
// replica has it, which carries it out again: that is why effects are idempotent.
func (s *Store) EffectDone(ctx context.Context, replica string, id int64) error {
	err := s.endEffect(ctx, replica, id, "done", nil)
	crash.At("verifier.effect.done")
	return err
}

// EffectRefused records that the other service refused an effect for good. Operators see it
// (RefusedEffects) and may have it tried again (RetryEffect).
func (s *Store) EffectRefused(ctx context.Context, replica string, id int64, problem string) error {
	text := cut(problem, 200)
	return s.endEffect(ctx, replica, id, "refused", &text)
}

func (s *Store) endEffect(ctx context.Context, replica string, id int64, state string, problem *string) error {
	ok, err := exec(ctx, s.pool, `UPDATE effect SET state = $3, problem = coalesce($4, problem), replica = NULL,
		leased_until = NULL, ended_at = clock_timestamp()
		WHERE effect_id = $1 AND replica = $2 AND state = 'pending'`, id, replica, state, problem)
	return effectErr(ok, err, "end an effect")
}

// EffectFailed gives an effect back after a try that failed, with a pause that doubles from
// one second to ten minutes.
func (s *Store) EffectFailed(ctx context.Context, replica string, id int64, problem string) error {
	ok, err := exec(ctx, s.pool, `UPDATE effect SET problem = $3, replica = NULL, leased_until = NULL,
			next_at = clock_timestamp() + least($5::interval, $4::interval * power(2, least(tries, 20) - 1))
		WHERE effect_id = $1 AND replica = $2 AND state = 'pending'`,
		id, replica, cut(problem, 200), firstEffectPause, maxEffectPause)
	return effectErr(ok, err, "give an effect back")
}

func effectErr(ok bool, err error, what string) error {
	if err == nil && !ok {
		err = ErrEffect
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// RetryEffect has a refused effect tried again, at once, for an operator. It reports whether there was one.
func (s *Store) RetryEffect(ctx context.Context, id int64) (bool, error) {
	found := false
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var verdict probe.VerdictID
		var kind EffectKind
		err := tx.QueryRow(ctx, `UPDATE effect SET state = 'pending', ended_at = NULL, next_at = clock_timestamp()
			WHERE effect_id = $1 AND state = 'refused' RETURNING verdict_id, kind`, id).Scan(&verdict, &kind)
		if found = err == nil; !found {
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		}
		return addAct(ctx, tx, actor.OfOperator(ctx), retriedEffect, verdict.String(),
			map[string]any{"effect_id": strconv.FormatInt(id, 10), "kind": string(kind)})
	})
	if err != nil {
		return false, fmt.Errorf("try an effect again: %w", err)
	}
	return found, nil
}

// RefusedEffects returns the effects that were refused for good, the oldest first, behind
// after, at most limit.
func (s *Store) RefusedEffects(ctx context.Context, after int64, limit int) ([]Effect, error) {
	list, err := collect(ctx, s.pool, scanEffect, `SELECT `+effectColumns+` FROM effect e `+effectJoins+`
		WHERE e.state = 'refused' AND e.effect_id > $1 ORDER BY e.effect_id LIMIT $2`, after, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list refused effects: %w", err)
	}
	return list, nil
}

// OutboxState is what metrics say of the outbox.
type OutboxState struct {
	// Pending and Refused count effects that were not carried out.
	Pending, Refused int
	// Lag is the age of the oldest that is pending.
	Lag time.Duration
}

// Outbox counts the effects that were not carried out.
func (s *Store) Outbox(ctx context.Context) (OutboxState, error) {
	var o OutboxState
	err := s.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state =
		'refused'),
			coalesce(greatest(interval '0', clock_timestamp() - min(created_at) FILTER (WHERE state = 'pending')),
				interval '0')
		FROM effect WHERE state IN ('pending', 'refused')`).Scan(&o.Pending, &o.Refused, &o.Lag)
	if err != nil {
		return OutboxState{}, fmt.Errorf("count the outbox: %w", err)
	}
	return o, nil
}
