package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/webhook"
)

// Webhooks keeps the endpoints of accounts; it implements webhook.Store, webhook.Queue and
// what package events stores.
//
// An endpoint is locked before its deliveries, and endpoints by ascending id. Nothing here
// locks a wallet or an account beside them.
type Webhooks struct{ *Store }

var (
	_ webhook.Store = Webhooks{}
	_ webhook.Queue = Webhooks{}
)

const webhookColumns = `w.id, w.account_id, w.url, w.description, w.kinds, w.note, w.created_at, w.secret,
	CASE WHEN w.previous_until > now() THEN w.previous END, w.previous_until,
	CASE WHEN w.earlier_until > now() THEN w.earlier END, w.earlier_until, w.failures, w.failing_since, w.dropped`

func scanWebhook(row pgx.CollectableRow) (e webhook.Endpoint, err error) {
	var former [webhook.MaxFormer][]byte
	var until [webhook.MaxFormer]*time.Time
	var since *time.Time
	err = row.Scan(&e.ID, &e.Account, &e.URL, &e.Description, &e.Kinds, &e.Note, &e.Created, &e.Secret,
		&former[0], &until[0], &former[1], &until[1], &e.Failures, &since, &e.Dropped)
	for i, secret := range former {
		if secret != nil {
			e.Former = append(e.Former, webhook.Former{Secret: secret, Until: *until[i]})
		}
	}
	if since != nil {
		e.FailingSince = *since
	}
	return e, err
}

// oneWebhook reads the endpoint of a condition.
func oneWebhook(ctx context.Context, from reader, where string, args ...any) (webhook.Endpoint, error) {
	rows, err := from.Query(ctx, `SELECT `+webhookColumns+` FROM webhook w WHERE `+where, args...)
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("read a webhook: %w", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanWebhook)
	if errors.Is(err, pgx.ErrNoRows) {
		return webhook.Endpoint{}, webhook.NotFound()
	}
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("read a webhook: %w", err)
	}
	return e, nil
}

// AddWebhook implements webhook.Store.
func (s Webhooks) AddWebhook(ctx context.Context, e webhook.Endpoint) (made webhook.Endpoint, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO webhook (id, account_id, url, description, kinds, secret)
			VALUES ($1, $2, $3, $4, $5, $6)`, e.ID, e.Account, e.URL, e.Description, e.Kinds, e.Secret)
		switch {
		case pg.IsCheck(err, "webhook_bound"):
			return webhook.TooMany()
		case err != nil:
			return fmt.Errorf("keep a webhook: %w", err)
		}
		made, err = oneWebhook(ctx, tx, `w.id = $1`, e.ID)
		return err
	})
	return made, err
}

// Webhooks implements webhook.Store.
func (s Webhooks) Webhooks(ctx context.Context, account ids.AccountID) ([]webhook.Endpoint, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+webhookColumns+` FROM webhook w WHERE account_id = $1
		ORDER BY created_at, id`, account)
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanWebhook)
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	return list, nil
}

// lockWebhook locks an endpoint of an account and reads it.
func lockWebhook(
	ctx context.Context, tx pgx.Tx, account ids.AccountID, id webhook.ID,
) (e webhook.Endpoint, now time.Time, err error) {
	if _, err = tx.Exec(ctx, `SELECT FROM webhook WHERE id = $1 AND account_id = $2 FOR UPDATE`, id, account); err != nil {
		return e, now, fmt.Errorf("lock a webhook: %w", err)
	}
	if e, err = oneWebhook(ctx, tx, `w.id = $1 AND w.account_id = $2`, id, account); err != nil {
		return e, now, err
	}
	if err = tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return e, now, fmt.Errorf("read the time: %w", err)
	}
	return e, now, nil
}

// ChangeWebhook implements webhook.Store.
func (s Webhooks) ChangeWebhook(
	ctx context.Context, account ids.AccountID, id webhook.ID, apply func(*webhook.Endpoint, time.Time) error,
) (e webhook.Endpoint, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		before, now, err := lockWebhook(ctx, tx, account, id)
		if err != nil {
			return err
		}
		e = before
		if err := apply(&e, now); err != nil {
			return err
		}
		var former [webhook.MaxFormer]webhook.Former
		copy(former[:], e.Former)
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE webhook SET url = $2, description = $3, kinds = $4, note = $5, secret = $6, previous = $7,
			previous_until = $8, earlier = $9, earlier_until = $10, failures = $11, failing_since = $12,
			paused_until = CASE WHEN $11 = 0 THEN NULL ELSE paused_until END WHERE id = $1`, e.ID, e.URL, e.Description,
			e.Kinds, e.Note, e.Secret, former[0].Secret, timeOrNull(former[0].Until), former[1].Secret,
			timeOrNull(former[1].Until), e.Failures, timeOrNull(e.FailingSince))
		if e.Note != webhook.Enabled {
			dropWaiting(batch, e.ID)
		}
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("change a webhook: %w", err)
		}
		return nil
	})
	return e, err
}

// dropWaiting drops what waits for an endpoint that ends. It is no loss of a full queue, so
// it is not counted as one.
func dropWaiting(batch *pgx.Batch, id webhook.ID) {
	batch.Queue(`UPDATE webhook_delivery SET state = 'dropped', due_at = NULL
		WHERE webhook_id = $1 AND state = 'waiting'`, id)
	batch.Queue(`UPDATE webhook SET next_at = NULL WHERE id = $1`, id)
}

func timeOrNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// DeleteWebhook implements webhook.Store.
func (s Webhooks) DeleteWebhook(ctx context.Context, account ids.AccountID, id webhook.ID) error {
	tag, err := s.pool.Exec(ctx, `DELETE FROM webhook WHERE id = $1 AND account_id = $2`, id, account)
	if err != nil {
		return fmt.Errorf("delete a webhook: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return webhook.NotFound()
	}
	return nil
}

// Deliveries implements webhook.Store.
func (s Webhooks) Deliveries(
	ctx context.Context, account ids.AccountID, id webhook.ID, behind webhook.Place, limit int,
) ([]webhook.Delivery, error) {
	if _, err := oneWebhook(ctx, s.pool, `w.id = $1 AND w.account_id = $2`, id, account); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT d.event_id, e.kind, d.state, d.attempt, d.status, d.problem, d.made_at,
			d.tried_at, d.due_at
		FROM webhook_delivery d JOIN account_event e ON e.id = d.event_id
		WHERE d.webhook_id = $1 AND ($2::timestamptz IS NULL OR (d.made_at, d.event_id) < ($2, $3))
		ORDER BY d.made_at DESC, d.event_id DESC LIMIT $4`, id, timeOrNull(behind.Made), behind.Event, limit)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d webhook.Delivery, err error) {
		var tried, due *time.Time
		err = row.Scan(&d.Event, &d.Kind, &d.State, &d.Attempt, &d.Status, &d.Problem, &d.Made, &tried, &due)
		if tried != nil {
			d.Tried = *tried
		}
		if due != nil {
			d.Next = *due
		}
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return list, nil
}

// TestWebhook implements webhook.Store.
func (s Webhooks) TestWebhook(
	ctx context.Context, account ids.AccountID, id webhook.ID, event accountevent.ID,
) (wait time.Duration, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		e, _, err := lockWebhook(ctx, tx, account, id)
		if err != nil {
			return err
		}
		if e.Note != webhook.Enabled {
			return fault.New(fault.Precondition, fault.TransitionNotAllowed, "The webhook is not enabled.")
		}
		var seconds float64
		if err := tx.QueryRow(ctx, `SELECT coalesce(extract(epoch FROM tested_at + $2 - clock_timestamp()), 0)::float8
			FROM webhook WHERE id = $1`, id, webhook.TestPause).Scan(&seconds); err != nil {
			return fmt.Errorf("read when a webhook was tested: %w", err)
		}
		if wait = time.Duration(seconds * float64(time.Second)); wait > 0 {
			return nil
		}
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO account_event (id, account_id, kind, data) VALUES ($1, $2, $3,
			jsonb_build_object('webhook_id', $4::uuid))`, event, account, accountevent.Test, id)
		batch.Queue(`UPDATE account_event SET pending = false WHERE id = $1`, event)
		batch.Queue(`INSERT INTO webhook_delivery (webhook_id, event_id) VALUES ($1, $2)`, id, event)
		batch.Queue(`UPDATE webhook SET tested_at = clock_timestamp(), next_at = least(next_at, clock_timestamp())
			WHERE id = $1`, id)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("test a webhook: %w", err)
		}
		return nil
	})
	return wait, err
}

// LowAt implements webhook.Store.
func (s Webhooks) LowAt(ctx context.Context, account ids.AccountID) (nano int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce(low_at, 0) FROM wallet WHERE account_id = $1`, account).Scan(&nano)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, fault.New(fault.NotFound, fault.AccountNotFound, "no such account")
	}
	if err != nil {
		return 0, fmt.Errorf("read when a balance is low: %w", err)
	}
	return nano, nil
}

// SetLowAt implements webhook.Store.
func (s Webhooks) SetLowAt(ctx context.Context, account ids.AccountID, nano int64) error {
	tag, err := s.pool.Exec(ctx, `UPDATE wallet SET low_at = nullif($2::bigint, 0) WHERE account_id = $1`, account, nano)
	if err != nil {
		return fmt.Errorf("say when a balance is low: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.NotFound, fault.AccountNotFound, "no such account")
	}
	return nil
}
