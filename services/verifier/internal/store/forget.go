package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/keep"
)

// The trigger event_ends has the same rule. Events that a verdict names are kept. The few
// that are kept for good are read again in each round.
const forgetEvents = `
WITH old AS MATERIALIZED (
	SELECT e.provider_id, e.model_id, e.number
	FROM event e JOIN evidence v USING (provider_id, model_id, number)
	WHERE e.at <= (SELECT clock_timestamp()) - $1::interval AND e.kind IN ('judged', 'paired', 'ticked')
		AND v.sealed IS NULL
		AND EXISTS (SELECT FROM event z
			WHERE z.provider_id = e.provider_id AND z.model_id = e.model_id AND z.number > e.number
				AND (e.m > 0 OR z.m = 0))
		AND NOT EXISTS (SELECT FROM verdict d
			WHERE d.provider_id = e.provider_id AND d.model_id = e.model_id AND d.number = e.number)
	ORDER BY e.at LIMIT $2
), said AS (
	DELETE FROM observation b USING old
	WHERE (b.provider_id, b.model_id, b.number) = (old.provider_id, old.model_id, old.number)
)
DELETE FROM event e USING old WHERE (e.provider_id, e.model_id, e.number) = (old.provider_id, old.model_id, old.number)`

const forgetProbes = `
DELETE FROM probe WHERE probe_id IN (
	SELECT p.probe_id FROM probe p
	WHERE p.ended_at <= (SELECT clock_timestamp()) - $1::interval
		AND NOT EXISTS (SELECT FROM event e WHERE e.probe_id = p.probe_id)
	ORDER BY p.ended_at LIMIT $2)`

// Forget deletes events whose evidence is cleared, with their observations, and then probes
// that ended so long ago and that no event names, at most limit of each. It returns how many
// events and probes it deleted. Of an event the leaf and the link stay.
func (s *Store) Forget(ctx context.Context, limit int) (events, probes int, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		// Two replicas would otherwise wait for each other's rows.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('verifier.forget'), 0)`); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, forgetEvents, keep.Retention, bounded(limit, MaxBatch))
		if err != nil {
			return err
		}
		m, err := tx.Exec(ctx, forgetProbes, keep.Retention, bounded(limit, MaxBatch))
		events, probes = int(n.RowsAffected()), int(m.RowsAffected())
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("forget events and probes: %w", err)
	}
	return events, probes, nil
}
