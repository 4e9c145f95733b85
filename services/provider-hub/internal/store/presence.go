package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/uptime"
)

// Reading is bounded. Of a provider with more connections than maxConnections the latest
// are read, and of the times that they make up together the maxSpans longest. What was
// not read counts as away, so the window is always the whole one. Of hubs with more runs
// than maxRuns the latest count.
const (
	maxConnections = 100_000
	maxSpans       = 10_000
	maxRuns        = 50_000
	// maxNodes bounds the machines of a provider that are kept.
	maxNodes = 128
)

// Record implements presence.Store.
func (s *Store) Record(ctx context.Context, run presence.Run, page presence.Page) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if err := s.recordRun(ctx, tx, run, page); err != nil {
			return err
		}
		if err := recordConnections(ctx, tx, run, page.Connections); err != nil {
			return err
		}
		if page.Lost || page.Last {
			if _, err := tx.Exec(ctx, `
				UPDATE presence_interval SET ended = greatest(started, $3), ended_by = 'platform'
				WHERE hub_id = $1 AND incarnation = $2 AND ended IS NULL AND epoch <> ALL($4)`,
				run.HubID, run.Incarnation, page.At, page.Live()); err != nil {
				return err
			}
		}
		return recordNodes(ctx, tx, page)
	})
	if err != nil {
		return fmt.Errorf("record presence: %w", err)
	}
	return nil
}

// recordRun writes that the hub is there. Where another hub took it for dead and ended
// its run, the run is open again.
func (s *Store) recordRun(ctx context.Context, tx pgx.Tx, run presence.Run, page presence.Page) error {
	at := page.At
	if at.Before(run.Started) {
		at = run.Started // the clock was set back
	}
	var ended *time.Time
	if page.Last {
		ended = &at
	}
	var wasEnded bool
	err := tx.QueryRow(ctx, `SELECT ended IS NOT NULL FROM hub_run WHERE hub_id = $1 AND incarnation = $2 FOR UPDATE`,
		run.HubID, run.Incarnation).Scan(&wasEnded)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO hub_run AS r (hub_id, incarnation, started, last_seen, heard, ended)
		VALUES ($1, $2, $3, $4, clock_timestamp(), $5)
		ON CONFLICT (hub_id, incarnation) DO UPDATE
			SET last_seen = greatest(r.last_seen, excluded.last_seen), heard = excluded.heard, ended = excluded.ended`,
		run.HubID, run.Incarnation, run.Started, at, ended)
	if err != nil {
		return err
	}
	if wasEnded {
		_, err = tx.Exec(ctx, `
			UPDATE presence_interval SET ended = NULL, ended_by = NULL
			WHERE hub_id = $1 AND incarnation = $2 AND epoch = ANY($3)`, run.HubID, run.Incarnation, page.Live())
		return err
	}
	if !page.First {
		return nil
	}
	// A hub's id belongs to one process, so its earlier runs have ended.
	return endRuns(ctx, tx, `r.ended IS NULL AND r.hub_id = $1 AND r.incarnation < $2`, run.HubID, run.Incarnation)
}

// endRuns ends runs as of when they were seen last, and the connections that they left
// open as ended by the platform.
func endRuns(ctx context.Context, tx pgx.Tx, where string, args ...any) error {
	_, err := tx.Exec(ctx, `
		WITH dead AS (
			UPDATE hub_run r SET ended = r.last_seen WHERE `+where+` RETURNING r.hub_id, r.incarnation, r.last_seen
		)
		UPDATE presence_interval i SET ended = greatest(i.started, dead.last_seen), ended_by = 'platform'
		FROM dead WHERE i.hub_id = dead.hub_id AND i.incarnation = dead.incarnation AND i.ended IS NULL`, args...)
	return err
}

// EndSilentHubs implements provider.Store. Only the database's clock counts.
func (s *Store) EndSilentHubs(ctx context.Context) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return endRuns(ctx, tx, `r.ended IS NULL AND r.heard < now() - $1::interval`, provider.HubSilence)
	})
	if err != nil {
		return fmt.Errorf("end the runs of silent hubs: %w", err)
	}
	return nil
}

// recordConnections writes the hub's own connections as the hub reports them.
func recordConnections(ctx context.Context, tx pgx.Tx, run presence.Run, all []presence.Connection) error {
	if len(all) == 0 {
		return nil
	}
	var epochs, given []int64
	var providers, nodes []string
	var started []time.Time
	var ended []*time.Time
	var by []*string
	for _, c := range all {
		if c.Brief() {
			given = append(given, c.Epoch)
			continue
		}
		epochs, providers, nodes = append(epochs, c.Epoch), append(providers, c.Provider.String()), append(nodes, c.Node)
		started, ended, by = append(started, c.Started), append(ended, null(c.Ended)), append(by, nullText(string(c.EndedBy)))
	}
	if len(given) > 0 {
		if _, err := tx.Exec(ctx, `DELETE FROM presence_interval WHERE epoch = ANY($1)`, given); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO presence_interval (epoch, provider_id, node_id, hub_id, incarnation, started, ended, ended_by)
		SELECT t.epoch, t.provider_id, t.node_id, $1, $2, t.started,
			CASE WHEN t.ended IS NOT NULL THEN greatest(t.started, t.ended) END, t.ended_by
		FROM unnest($3::bigint[], $4::uuid[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::text[])
			AS t (epoch, provider_id, node_id, started, ended, ended_by)
		ON CONFLICT (epoch) DO UPDATE SET ended = excluded.ended, ended_by = excluded.ended_by`,
		run.HubID, run.Incarnation, epochs, providers, nodes, started, ended, by)
	return err
}

// Presences implements provider.Store. An open connection lasts until now while its hub
// is heard, and else until the hub was heard last. The database joins connections that
// overlap or touch, so a node that does nothing but reconnect is one line.
func (s *Store) Presences(
	ctx context.Context, providers []ids.ProviderID, since, now time.Time,
) (map[ids.ProviderID]provider.Presence, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT p.id, f.first, u.node_id, u.began, u.ended, u.excused
		FROM unnest($1::uuid[]) AS p (id)
		CROSS JOIN LATERAL (SELECT min(started) AS first FROM presence_interval i WHERE i.provider_id = p.id) f
		CROSS JOIN LATERAL (
			WITH latest AS MATERIALIZED (
				SELECT * FROM presence_interval i
				WHERE i.provider_id = p.id AND (i.ended IS NULL OR i.ended > $2)
				ORDER BY i.started DESC, i.epoch DESC LIMIT $5
			), connected AS MATERIALIZED (
				SELECT i.node_id, i.started,
					greatest(i.started, CASE WHEN i.ended IS NOT NULL THEN i.ended WHEN h.heard THEN $4 ELSE r.last_seen END) AS until,
					CASE WHEN i.ended IS NULL THEN NOT h.heard ELSE i.ended_by = 'platform' END AS excused
				FROM latest i JOIN hub_run r USING (hub_id, incarnation)
				CROSS JOIN LATERAL (SELECT r.ended IS NULL AND r.heard >= now() - $3::interval AS heard) h
			), together AS (
				SELECT node_id, unnest(range_agg(tstzrange(started, until, '[]'))) AS up FROM connected GROUP BY node_id
			)
			SELECT t.node_id, lower(t.up) AS began, upper(t.up) AS ended, e.until IS NOT NULL AS excused
			FROM together t
			LEFT JOIN (SELECT DISTINCT node_id, until FROM connected WHERE excused) e
				ON e.node_id = t.node_id AND e.until = upper(t.up)
			ORDER BY upper(t.up) - lower(t.up) DESC, lower(t.up) DESC, t.node_id LIMIT $6
		) u`,
		idTexts(providers), since, provider.HubSilence, now, maxConnections, maxSpans)
	if err != nil {
		return nil, fmt.Errorf("read presence: %w", err)
	}
	all := map[ids.ProviderID]provider.Presence{}
	var id ids.ProviderID
	var first time.Time
	var c uptime.Connection
	_, err = pgx.ForEachRow(rows, []any{&id, &first, &c.Node, &c.From, &c.To, &c.Excused}, func() error {
		p := all[id]
		p.First, p.Connections = first, append(p.Connections, c)
		all[id] = p
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read presence: %w", err)
	}
	return all, nil
}

// HubRuns implements provider.Store.
func (s *Store) HubRuns(ctx context.Context, since, now time.Time) ([]uptime.Span, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT started, coalesce(ended, CASE WHEN heard >= now() - $2::interval THEN greatest($3, started) ELSE last_seen END)
		FROM hub_run WHERE last_seen > $1 ORDER BY last_seen DESC, hub_id, incarnation LIMIT $4`,
		since, provider.HubSilence, now, maxRuns)
	if err != nil {
		return nil, fmt.Errorf("read the runs of hubs: %w", err)
	}
	runs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r uptime.Span, err error) {
		err = row.Scan(&r.From, &r.To)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the runs of hubs: %w", err)
	}
	return runs, nil
}

// Online implements provider.Store.
func (s *Store) Online(ctx context.Context, providers []ids.ProviderID) (map[ids.ProviderID]bool, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT p.id FROM unnest($1::uuid[]) AS p (id)
		WHERE EXISTS (
			SELECT FROM presence_interval i JOIN hub_run r USING (hub_id, incarnation)
			WHERE i.provider_id = p.id AND i.ended IS NULL AND r.ended IS NULL AND r.heard >= now() - $2::interval)`,
		idTexts(providers), provider.HubSilence)
	if err != nil {
		return nil, fmt.Errorf("read who is online: %w", err)
	}
	online := map[ids.ProviderID]bool{}
	var id ids.ProviderID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { online[id] = true; return nil }); err != nil {
		return nil, fmt.Errorf("read who is online: %w", err)
	}
	return online, nil
}

// ToMeasure implements provider.Store.
func (s *Store) ToMeasure(ctx context.Context, before, now time.Time, limit int) ([]ids.ProviderID, error) {
	rows, err := s.pool.Query(ctx, `
		UPDATE provider SET uptime_at = $2 WHERE provider_id IN (
			SELECT provider_id FROM provider WHERE uptime_at IS NULL OR uptime_at < $1
			ORDER BY uptime_at NULLS FIRST LIMIT $3 FOR UPDATE SKIP LOCKED)
		RETURNING provider_id`, before, now, limit)
	if err != nil {
		return nil, fmt.Errorf("read the providers to measure: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.ProviderID])
	if err != nil {
		return nil, fmt.Errorf("read the providers to measure: %w", err)
	}
	return list, nil
}

// KeepUptime implements provider.Store.
func (s *Store) KeepUptime(ctx context.Context, all []provider.Measured, now time.Time) error {
	providers, days, months := make([]ids.ProviderID, len(all)), make([]*float64, len(all)), make([]*float64, len(all))
	for i, m := range all {
		providers[i], days[i], months[i] = m.ID, m.Day, m.Mon
	}
	_, err := s.pool.Exec(ctx, `
		UPDATE provider p SET uptime_24h = m.day, uptime_30d = m.month, uptime_at = $4
		FROM unnest($1::uuid[], $2::float8[], $3::float8[]) AS m (provider_id, day, month)
		WHERE p.provider_id = m.provider_id`, idTexts(providers), days, months, now)
	if err != nil {
		return fmt.Errorf("keep uptime: %w", err)
	}
	return nil
}

// Old rows are deleted forgetBatch at a time, at most forgetRounds times of each kind in
// one call. Hubs that delete at the same time do not wait for each other.
const (
	forgetBatch  = 5_000
	forgetRounds = 20
)

// Forget implements provider.Store.
func (s *Store) Forget(ctx context.Context, kept, nodes, nonces time.Time) error {
	for _, q := range []struct {
		sql string
		at  time.Time
	}{
		{`DELETE FROM presence_interval WHERE epoch IN (
			SELECT epoch FROM presence_interval WHERE ended < $1 ORDER BY ended LIMIT $2 FOR UPDATE SKIP LOCKED)`, kept},
		{`DELETE FROM hub_run WHERE (hub_id, incarnation) IN (
			SELECT hub_id, incarnation FROM hub_run r WHERE r.ended < $1 AND NOT EXISTS (
				SELECT FROM presence_interval i WHERE i.hub_id = r.hub_id AND i.incarnation = r.incarnation) LIMIT $2)`, kept},
		{`DELETE FROM provider_node WHERE (provider_id, node_id) IN (
			SELECT provider_id, node_id FROM provider_node n WHERE n.last_seen_at < $1 AND NOT EXISTS (
				SELECT FROM presence_interval i WHERE i.provider_id = n.provider_id AND i.node_id = n.node_id AND i.ended IS NULL)
				LIMIT $2)`, nodes},
		{`DELETE FROM answered_as WHERE last_at < $1 AND (provider_id, model_id) IN (
			SELECT provider_id, model_id FROM answered_as WHERE last_at < $1 ORDER BY last_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
			kept},
		{`DELETE FROM wallet_nonce WHERE nonce IN (SELECT nonce FROM wallet_nonce WHERE expires_at <= $1 LIMIT $2)`, nonces},
		{`DELETE FROM provider_key WHERE key_id IN (
			SELECT key_id FROM provider_key k WHERE least(k.expires_at, k.revoked_at) < $1 AND NOT EXISTS (
				SELECT FROM provider_status_change c WHERE c.key_id = k.key_id) AND NOT EXISTS (
				SELECT FROM provider_expulsion e WHERE e.verdict_id = k.expelled_by AND e.over_at IS NULL) LIMIT $2)`, kept},
	} {
		for range forgetRounds {
			tag, err := s.pool.Exec(ctx, q.sql, q.at, forgetBatch)
			if err != nil {
				return fmt.Errorf("delete old rows: %w", err)
			}
			if tag.RowsAffected() < forgetBatch {
				break
			}
		}
	}
	return nil
}
