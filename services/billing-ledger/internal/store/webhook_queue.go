package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/webhook"
)

// eventsKept is for how long an event and its deliveries are kept, so that an event that
// comes again is known.
const eventsKept = 30 * 24 * time.Hour

// KeepEvents stores events of providers for the accounts of their users. An event that is
// stored already, and one of a provider without a user, changes nothing.
func (s Webhooks) KeepEvents(ctx context.Context, list []accountevent.Event) error {
	batch := &pgx.Batch{}
	for _, e := range list {
		batch.Queue(`INSERT INTO account_event (id, account_id, kind, data, at)
			SELECT $1, account_id, $2, $3::text::jsonb, $4 FROM app_user WHERE provider_id = $5 ON CONFLICT DO NOTHING`,
			e.ID, e.Kind, string(e.Data), e.At, e.Provider)
	}
	err := s.inTx(ctx, func(tx pgx.Tx) error { return sendAll(ctx, tx, batch) })
	if err != nil {
		return fmt.Errorf("keep events of accounts: %w", err)
	}
	return nil
}

// FanOut implements webhook.Queue.
func (s Webhooks) FanOut(ctx context.Context, limit int) (dropped int, more bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, account_id FROM account_event WHERE pending ORDER BY stored_at, id LIMIT $1
			FOR UPDATE SKIP LOCKED`, limit)
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		var events []accountevent.ID
		var accounts []ids.AccountID
		var event accountevent.ID
		var account ids.AccountID
		if _, err = pgx.ForEachRow(rows, []any{&event, &account}, func() error {
			events, accounts = append(events, event), append(accounts, account)
			return nil
		}); err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		more = len(events) == limit
		if len(events) == 0 {
			return nil
		}
		dropped, err = handOut(ctx, tx, events, accounts)
		return err
	})
	return dropped, more && err == nil, err
}

// dropOldest drops what an account has waiting beyond its bound.
const dropOldest = `WITH over AS (
		SELECT webhook_id, event_id FROM (
			SELECT d.webhook_id, d.event_id,
				row_number() OVER (PARTITION BY w.account_id ORDER BY d.made_at DESC, d.event_id DESC) AS n
			FROM webhook w JOIN webhook_delivery d ON d.webhook_id = w.id AND d.state = 'waiting'
			WHERE w.account_id = ANY ($1)) q
		WHERE n > $2),
	gone AS (
		UPDATE webhook_delivery d SET state = 'dropped', due_at = NULL FROM over
		WHERE d.webhook_id = over.webhook_id AND d.event_id = over.event_id RETURNING d.webhook_id),
	counted AS (
		UPDATE webhook w SET dropped = w.dropped + g.n FROM (SELECT webhook_id, count(*)::integer AS n FROM gone GROUP BY 1) g
		WHERE w.id = g.webhook_id)
	SELECT count(*) FROM gone`

// handOut makes the deliveries of events whose rows are locked.
func handOut(
	ctx context.Context, tx pgx.Tx, events []accountevent.ID, accounts []ids.AccountID,
) (dropped int, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT FROM webhook WHERE account_id = ANY ($1) ORDER BY id FOR UPDATE`, accounts)
	batch.Queue(`WITH made AS (
			INSERT INTO webhook_delivery (webhook_id, event_id)
			SELECT w.id, e.id FROM account_event e
				JOIN webhook w ON w.account_id = e.account_id AND w.note = '' AND e.kind = ANY (w.kinds)
			WHERE e.id = ANY ($1) ORDER BY w.id, e.stored_at, e.id
			ON CONFLICT DO NOTHING RETURNING webhook_id)
		UPDATE webhook SET next_at = least(next_at, clock_timestamp()) WHERE id IN (SELECT webhook_id FROM made)`, events)
	batch.Queue(dropOldest, accounts, webhook.MaxWaiting).QueryRow(func(row pgx.Row) error { return row.Scan(&dropped) })
	batch.Queue(`UPDATE account_event SET pending = false WHERE id = ANY ($1)`, events)
	if err := sendAll(ctx, tx, batch); err != nil {
		return 0, fmt.Errorf("hand events out: %w", err)
	}
	return dropped, nil
}

// lookAhead bounds the endpoints that one look for turns reads: those served longest ago. As
// an account has few endpoints, many accounts are among them.
const lookAhead = 1000

// takeTurns leases endpoints that are due. Whoever is locked is another's to take, so nobody
// waits and no two wait for each other.
const takeTurns = `WITH due AS (
		SELECT id, account_id, served_at, failures > 0 AS failing FROM webhook WHERE ` + isDue + `
			AND account_id <> ALL ($1::uuid[]) AND (failures = 0 OR $5 > 0)
		ORDER BY served_at LIMIT $4),
	one AS (SELECT DISTINCT ON (account_id) id, served_at, failing FROM due ORDER BY account_id, served_at),
	chosen AS (
		SELECT id FROM (SELECT *, row_number() OVER (PARTITION BY failing ORDER BY served_at) AS place FROM one) ranked
		WHERE NOT failing OR place <= $5 ORDER BY served_at LIMIT $2),
	locked AS (
		SELECT id FROM webhook WHERE id IN (SELECT id FROM chosen) AND ` + isDue + ` FOR UPDATE SKIP LOCKED),
	taken AS (
		UPDATE webhook w SET busy_until = clock_timestamp() + $3, served_at = clock_timestamp()
		FROM locked WHERE w.id = locked.id
		RETURNING w.id, w.account_id, w.url, w.secret, w.previous, w.previous_until, w.earlier, w.earlier_until,
			w.busy_until, w.failures)
	SELECT t.id, t.account_id, t.url, t.secret, CASE WHEN t.previous_until > clock_timestamp() THEN t.previous END,
		CASE WHEN t.earlier_until > clock_timestamp() THEN t.earlier END, t.busy_until, e.id, coalesce(e.kind, ''), coalesce(e.at, t.busy_until), coalesce(e.data::text, ''),
		coalesce(d.attempt, 0) + 1, t.failures > 0
	FROM taken t
	LEFT JOIN LATERAL (SELECT event_id, attempt FROM webhook_delivery WHERE webhook_id = t.id AND state = 'waiting'
		AND due_at <= clock_timestamp() ORDER BY due_at, event_id LIMIT 1) d ON true
	LEFT JOIN account_event e ON e.id = d.event_id`

const isDue = `next_at IS NOT NULL AND next_at <= clock_timestamp()
	AND (busy_until IS NULL OR busy_until <= clock_timestamp()) AND (paused_until IS NULL OR paused_until <= clock_timestamp())`

// TakeTurns implements webhook.Queue. An endpoint whose deliveries were dropped meanwhile has
// no turn.
func (s Webhooks) TakeTurns(ctx context.Context, room webhook.Room) ([]webhook.Turn, error) {
	full := room.Full
	if full == nil {
		full = []ids.AccountID{}
	}
	rows, err := s.pool.Query(ctx, takeTurns, full, room.All, webhook.Lease, lookAhead, room.Failing)
	if err != nil {
		return nil, fmt.Errorf("take webhooks: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanTurn)
	if err != nil {
		return nil, fmt.Errorf("take webhooks: %w", err)
	}
	turns := all[:0]
	for _, t := range all {
		if t.Message.Kind != "" {
			turns = append(turns, t)
		} else if _, err := s.EndTurn(ctx, t, webhook.Result{}); err != nil {
			return nil, err
		}
	}
	return turns, nil
}

func scanTurn(row pgx.CollectableRow) (t webhook.Turn, err error) {
	var secret, previous, earlier []byte
	var event *accountevent.ID
	var data string
	err = row.Scan(&t.Endpoint, &t.Account, &t.URL, &secret, &previous, &earlier, &t.Lease, &event, &t.Message.Kind,
		&t.Message.At, &data, &t.Attempt, &t.Failing)
	t.Message.Data, t.Secrets = []byte(data), [][]byte{secret}
	for _, former := range [][]byte{previous, earlier} {
		if former != nil {
			t.Secrets = append(t.Secrets, former)
		}
	}
	if event != nil {
		t.Message.ID = *event
	}
	return t, err
}

// EndTurn implements webhook.Queue.
func (s Webhooks) EndTurn(ctx context.Context, t webhook.Turn, r webhook.Result) (next webhook.Next, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		next = webhook.Next{}
		e, now, err := lockWebhook(ctx, tx, t.Account, t.Endpoint)
		if err != nil {
			return err
		}
		var ours, stands bool
		var first *time.Time
		if err := tx.QueryRow(ctx, `SELECT w.busy_until IS NOT DISTINCT FROM $3,
				coalesce(d.state = 'waiting' AND d.attempt = $4, false), d.first_at
			FROM webhook w LEFT JOIN webhook_delivery d ON d.webhook_id = w.id AND d.event_id = $2 WHERE w.id = $1`,
			t.Endpoint, t.Message.ID, t.Lease, t.Attempt-1).Scan(&ours, &stands, &first); err != nil {
			return fmt.Errorf("read a delivery: %w", err)
		}
		batch := &pgx.Batch{}
		if stands && ours {
			if first == nil {
				first = &now
			}
			next = webhook.Follow(r, t.Attempt, *first, now, e.Failures, e.FailingSince)
			keepTurn(batch, t, r, next, *first, now)
		}
		if ours {
			batch.Queue(`UPDATE webhook SET busy_until = NULL,
				next_at = (SELECT min(due_at) FROM webhook_delivery WHERE webhook_id = $1 AND state = 'waiting')
				WHERE id = $1`, t.Endpoint)
		}
		return sendAll(ctx, tx, batch)
	})
	if fault.Is(err, fault.WebhookNotFound) {
		return webhook.Next{}, nil
	}
	if err != nil {
		return webhook.Next{}, fmt.Errorf("end the turn of a webhook: %w", err)
	}
	return next, nil
}

// keepTurn writes what follows from a try. The endpoint is locked, so that no other delivery is
// made before the next one is looked up.
func keepTurn(
	batch *pgx.Batch, t webhook.Turn, r webhook.Result, next webhook.Next, first, now time.Time,
) {
	batch.Queue(`UPDATE webhook_delivery SET state = $3, attempt = $4, first_at = $5, tried_at = $6, due_at = $7, status = $8,
		problem = $9 WHERE webhook_id = $1 AND event_id = $2`, t.Endpoint, t.Message.ID, next.State, t.Attempt, first, now,
		timeOrNull(next.Due), r.Status, r.Problem)
	batch.Queue(`UPDATE webhook SET failures = $2, failing_since = $3, paused_until = $4,
			note = CASE WHEN $5 = '' THEN note ELSE $5 END WHERE id = $1`,
		t.Endpoint, next.Failures, timeOrNull(next.FailingSince), timeOrNull(next.Pause), string(next.Note))
	if next.Note != webhook.Enabled {
		dropWaiting(batch, t.Endpoint)
	}
}

// PruneAccountEvents deletes up to limit events that are kept no longer, with their
// deliveries, and returns how many.
func (s *Store) PruneAccountEvents(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "events of accounts", `DELETE FROM account_event WHERE id IN (
		SELECT id FROM account_event WHERE stored_at <= now() - $2::interval AND NOT pending ORDER BY stored_at LIMIT $1
			FOR UPDATE SKIP LOCKED)`, limit, eventsKept)
}
