package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/accountevent"
)

// The outbox of what accounts are told. A trigger fills it with each change of a status.
var _ accountevent.Outbox = (*Store)(nil)

// TakeAccountEvents implements accountevent.Outbox.
func (s *Store) TakeAccountEvents(ctx context.Context, limit int) ([]accountevent.Event, error) {
	rows, err := s.pool.Query(ctx, `WITH due AS (
			SELECT event_id FROM account_event WHERE due_at <= clock_timestamp() ORDER BY due_at LIMIT $1
				FOR UPDATE SKIP LOCKED),
		taken AS (
			UPDATE account_event e SET tries = tries + 1,
				due_at = clock_timestamp() + least($2::interval * 2 ^ least(tries, 10), $3::interval)
			FROM due WHERE e.event_id = due.event_id
			RETURNING e.event_id, e.kind, e.provider_id, e.created_at, e.data::text)
		SELECT * FROM taken ORDER BY created_at, event_id`, limit, accountevent.Pause, accountevent.MaxPause)
	if err != nil {
		return nil, fmt.Errorf("take events of accounts: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e accountevent.Event, err error) {
		var data string
		err = row.Scan(&e.ID, &e.Kind, &e.Provider, &e.At, &data)
		e.Data = []byte(data)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("take events of accounts: %w", err)
	}
	return list, nil
}

// DropAccountEvents implements accountevent.Outbox.
func (s *Store) DropAccountEvents(ctx context.Context, stored []accountevent.ID) error {
	if _, err := s.pool.Exec(ctx, `DELETE FROM account_event WHERE event_id = ANY ($1)`, stored); err != nil {
		return fmt.Errorf("forget events of accounts: %w", err)
	}
	return nil
}
