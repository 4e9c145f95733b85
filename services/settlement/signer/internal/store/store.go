// Package store keeps in PostgreSQL what the signer has signed. Rows are only added: the
// service's role may neither change nor delete them, and triggers keep them from the owner
// too.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/record"
)

// Schema and Role are the signer's own in a shared database.
const (
	Schema = "signer"
	Role   = "svc_signer"
)

// Migrations make the schema, with the functions beside them.
//
//go:embed migrations/*.sql functions/*.sql
var Migrations embed.FS

// Store reads and writes the signer's tables.
type Store struct{ pool *pgxpool.Pool }

// New returns a store on a pool opened for Schema and Role.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	return nil
}

// lock takes the key's lock. A signature leaves this process only after a commit that
// survives a crash, whatever the server's default.
const lock = `
SELECT lock_key($1, $2), CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
	THEN set_config('synchronous_commit', 'on', true) END`

// history is read by a statement that begins after the lock was taken, so it sees all that
// was committed under the lock.
const history = `
SELECT statement_timestamp(),
	(SELECT call_hash FROM signed_nonce WHERE chain_id = $1 AND sender = $3 AND nonce = $4 AND NOT cancel),
	EXISTS (SELECT FROM signed_nonce WHERE chain_id = $1 AND sender = $3 AND nonce = $4 AND cancel),
	(SELECT max(nonce) FROM signed_nonce WHERE chain_id = $1 AND sender = $3),
	(SELECT coalesce(max(ceiling), 0)::text FROM signed_fee WHERE chain_id = $1 AND sender = $3 AND nonce = $4),
	(SELECT coalesce(sum(amount), 0)::text FROM signed_nonce WHERE chain_id = $1 AND key = $2 AND asset = $5 AND capped
		AND day = (statement_timestamp() AT TIME ZONE 'UTC')::date),
	(SELECT coalesce(sum(increase), 0)::text FROM signed_fee WHERE chain_id = $1 AND key = $2
		AND day = (statement_timestamp() AT TIME ZONE 'UTC')::date)`

// Record implements record.Store.
func (s *Store) Record(
	ctx context.Context, t policy.Transaction, use policy.Use, hash chain.Hash,
	decide func(record.History) (record.Entry, error),
) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lock, int64(t.Chain), string(t.Key)); err != nil {
			return err
		}
		before, err := read(ctx, tx, t, use)
		if err != nil {
			return err
		}
		entry, err := decide(before)
		if err != nil {
			return err
		}
		if err := add(ctx, tx, t, use, hash, before.Now, entry); err != nil {
			return err
		}
		crash.At("signer.nonce.before_commit")
		return nil
	})
	if _, known := fault.As(err); err != nil && !known {
		return fmt.Errorf("record a nonce: %w", err)
	}
	return err
}

func read(ctx context.Context, tx pgx.Tx, t policy.Transaction, use policy.Use) (record.History, error) {
	var s record.History
	var content []byte
	var highest *int64
	err := tx.QueryRow(ctx, history, int64(t.Chain), string(t.Key), t.Sender[:], int64(t.Nonce), use.Asset[:]).
		Scan(&s.Now, &content, &s.Cancelled, &highest, &s.Ceiling, &s.Moved, &s.Fees)
	if err != nil {
		return s, err
	}
	copy(s.Content[:], content)
	if highest != nil {
		s.Any, s.Highest = true, uint64(*highest)
	}
	return s, nil
}

func add(
	ctx context.Context, tx pgx.Tx, t policy.Transaction, use policy.Use, hash chain.Hash, now time.Time, e record.Entry,
) error {
	day := now.UTC()
	if e.Nonce {
		if _, err := tx.Exec(ctx, `
			INSERT INTO signed_nonce (chain_id, sender, nonce, cancel, call_hash, key, asset, amount, capped, day)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8::numeric, $9, $10)`, int64(t.Chain), t.Sender[:], int64(t.Nonce), t.Cancel,
			hash[:], string(t.Key), use.Asset[:], use.Amount.String(), use.Capped, day); err != nil {
			return err
		}
	}
	if e.Increase.IsZero() {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO signed_fee (chain_id, sender, nonce, ceiling, increase, key, day)
		VALUES ($1, $2, $3, $4::numeric, $5::numeric, $6, $7)`, int64(t.Chain), t.Sender[:], int64(t.Nonce),
		e.Ceiling.String(), e.Increase.String(), string(t.Key), day)
	return err
}

// Highest implements record.Store.
func (s *Store) Highest(ctx context.Context, id chain.ID, sender chain.Address) (uint64, bool, error) {
	var highest int64
	err := s.pool.QueryRow(ctx, `SELECT nonce FROM signed_nonce WHERE chain_id = $1 AND sender = $2
		ORDER BY nonce DESC LIMIT 1`, int64(id), sender[:]).Scan(&highest)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the highest nonce: %w", err)
	}
	return uint64(highest), true, nil
}
