package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/external"
)

// maxMoved bounds the leases that a hub gives up at once because others have fewer, so that few
// endpoints are without a hub at a time.
const maxMoved = 4

// mayBeHeld is the condition under which a hub may hold an endpoint e of a provider p. Other endpoints
// are not probed either.
const mayBeHeld = `(e.disabled_at IS NULL AND p.status NOT IN ('suspended', 'rejected'))`

// skipsOf returns the ids and the revisions of the endpoints that a hub skips.
func skipsOf(b external.Beat) (skip []external.ID, revisions []int64) {
	for _, one := range b.Skip[:min(len(b.Skip), external.MaxSkipped)] {
		skip, revisions = append(skip, one.ID), append(revisions, one.Revision)
	}
	return skip, revisions
}

// NoEndpoints reports whether there is no endpoint at all. It reports false where the database
// does not answer.
func (s *Store) NoEndpoints(ctx context.Context) bool {
	var none bool
	err := s.pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM external_endpoint)`).Scan(&none)
	return err == nil && none
}

// Beat implements external.Store. A lease that has ended and that nobody took is renewed.
func (s *Store) Beat(ctx context.Context, b external.Beat) (held []external.Held, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx,
			`DELETE FROM external_hub WHERE expires_at < clock_timestamp() - interval '1 hour'`); err != nil {
			return err
		}
		skip, revisions := skipsOf(b)
		if _, err := tx.Exec(ctx, `
			UPDATE external_lease l SET holder = NULL, hub_id = NULL, expires_at = '-infinity'
			FROM external_endpoint e JOIN provider p USING (provider_id)
			WHERE e.endpoint_id = l.endpoint_id AND l.holder = $1 AND (NOT `+mayBeHeld+`
				OR (e.endpoint_id, e.revision) IN (SELECT * FROM unnest($2::uuid[], $3::bigint[])))`,
			b.Holder, skip, revisions); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO external_hub (holder, hub_id, expires_at, skips)
			VALUES ($1, $2, clock_timestamp() + $3::interval, $4)
			ON CONFLICT (holder) DO UPDATE SET expires_at = excluded.expires_at, skips = excluded.skips`,
			b.Holder, b.HubID, b.TTL, min(b.Unreadable, external.MaxSkipped)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE external_lease SET expires_at = clock_timestamp() + $2::interval WHERE holder = $1`, b.Holder,
			b.TTL); err != nil {
			return err
		}
		if err := balance(ctx, tx, b); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT l.endpoint_id, e.revision FROM external_lease l JOIN external_endpoint e USING (endpoint_id)
			WHERE l.holder = $1`, b.Holder)
		if err != nil {
			return err
		}
		held, err = pgx.CollectRows(rows, pgx.RowToStructByPos[external.Held])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("renew leases of external endpoints: %w", err)
	}
	return held, nil
}

// balance brings the leases of a hub to its share: an equal part of all endpoints for each hub that is
// alive, plus as many as the other hubs cannot serve. Endpoints of active providers come first, because
// anybody may open an account and register endpoints, and hubs have bounds.
func balance(ctx context.Context, tx pgx.Tx, b external.Beat) error {
	var endpoints, hubs, skips, mine int
	if err := tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM external_endpoint e JOIN provider p USING (provider_id) WHERE `+mayBeHeld+`),
			(SELECT count(*) FROM external_hub WHERE expires_at > clock_timestamp()),
			(SELECT coalesce(sum(skips), 0) FROM external_hub WHERE expires_at > clock_timestamp() AND holder <> $1),
			(SELECT count(*) FROM external_lease WHERE holder = $1)`, b.Holder).Scan(&endpoints, &hubs, &skips,
		&mine); err != nil {
		return err
	}
	share := min(b.Max, (endpoints+max(hubs, 1)-1)/max(hubs, 1)+skips)
	if mine > share {
		_, err := tx.Exec(ctx, `
			UPDATE external_lease SET holder = NULL, hub_id = NULL, expires_at = '-infinity'
			WHERE endpoint_id IN (
				SELECT l.endpoint_id FROM external_lease l JOIN external_endpoint e USING (endpoint_id)
					JOIN provider p USING (provider_id)
				WHERE l.holder = $1 ORDER BY p.status = 'active', l.endpoint_id LIMIT $2)`,
			b.Holder, min(mine-share, maxMoved))
		return err
	}
	if mine >= b.Max {
		gone, err := makeRoom(ctx, tx, b.Holder)
		if err != nil {
			return err
		}
		mine -= gone
	}
	skip, revisions := skipsOf(b)
	_, err := tx.Exec(ctx, `
		UPDATE external_lease SET holder = $1, hub_id = $2, expires_at = clock_timestamp() + $3::interval
		WHERE endpoint_id IN (
			SELECT l.endpoint_id FROM external_lease l JOIN external_endpoint e USING (endpoint_id)
				JOIN provider p USING (provider_id)
			WHERE l.expires_at <= clock_timestamp() AND `+mayBeHeld+`
				AND (e.endpoint_id, e.revision) NOT IN (SELECT * FROM unnest($5::uuid[], $6::bigint[]))
			ORDER BY p.status <> 'active', l.expires_at, l.endpoint_id LIMIT $4 FOR UPDATE OF l SKIP LOCKED)`,
		b.Holder, b.HubID, b.TTL, share-mine, skip, revisions)
	return err
}

// makeRoom gives up endpoints of providers that are not active, as many as endpoints of active
// ones are free, and returns how many it gave up.
func makeRoom(ctx context.Context, tx pgx.Tx, holder external.Holder) (gone int, err error) {
	tag, err := tx.Exec(ctx, `
		UPDATE external_lease SET holder = NULL, hub_id = NULL, expires_at = '-infinity'
		WHERE endpoint_id IN (
			SELECT l.endpoint_id FROM external_lease l JOIN external_endpoint e USING (endpoint_id)
				JOIN provider p USING (provider_id)
			WHERE l.holder = $1 AND p.status <> 'active' ORDER BY l.endpoint_id
			LIMIT least($2::bigint, (
				SELECT count(*) FROM external_lease f JOIN external_endpoint e USING (endpoint_id)
					JOIN provider p USING (provider_id)
				WHERE f.expires_at <= clock_timestamp() AND e.disabled_at IS NULL AND p.status = 'active')))`,
		holder, maxMoved)
	return int(tag.RowsAffected()), err
}

// GiveUp implements external.Store.
func (s *Store) GiveUp(ctx context.Context, holder external.Holder) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			UPDATE external_lease SET holder = NULL, hub_id = NULL, expires_at = '-infinity' WHERE holder = $1`,
			holder); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM external_hub WHERE holder = $1`, holder)
		return err
	})
	if err != nil {
		return fmt.Errorf("give up leases of external endpoints: %w", err)
	}
	return nil
}
