// Package store keeps billing-ledger's tables in PostgreSQL, as the application
// role, which may add to the ledger and never change it.
//
// No two transactions wait for each other, because all take their locks in one
// order, and those of one kind by ascending id:
//
//  1. reports, by request (Conclude inserts them);
//  2. holds, by request; who takes them in another order passes over those that
//     are locked (SKIP LOCKED);
//  3. renewals and reviews, which the lock on the hold guards, and lines and
//     entries of settled requests, likewise (every other entry is posted after
//     the wallets it moves, by kind and business id);
//  4. wallets, by account. Each transaction takes all that it needs at once,
//     however little it changes of some: the lock also guards key_inflight and
//     key_rate of the account's keys, its state, and all that counts for its
//     plan, which are changed under it in any order. Who refunds, or posts what
//     takes from earnings that are held in part, then locks the earnings of the
//     providers, and after them what is held;
//  5. changes of holds, which are locked since 2: inserted ones by request,
//     since another may admit the same request for another account, and those
//     that end. Whoever inserts waits for a row that is being changed, so after
//     a change of holds a transaction locks no wallet any more;
//  6. the quarantine, by payload and reason.
//
// Claims of idempotency keys are apart from these: under the quota of their key,
// and beside it they only read. So are visits, under the row of their address, and
// signing in: it takes the row of the e-mail's attempts, then that of the user,
// then sessions.
//
// A report frees the places that its request takes up in the concurrency of its
// key and plan, or whoever closes the hold does, when there is none: each reads
// what the other may have done after it has locked the hold.
//
// Whoever settles takes wallets as late as the money allows, at best in the
// last round trip: every admission of the account waits for them.
//
// Nothing here uses the process's clock: what is a minute, and when a hold is
// over, is the database's to say.
package store

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Schema and Role are billing-ledger's own in a shared database.
const (
	Schema = "billing"
	Role   = "svc_billing"
)

// Migrations make the schema, with the functions and views beside them.
//
//go:embed migrations/*.sql functions/*.sql views/*.sql
var Migrations embed.FS

// Store reads and writes billing-ledger's tables.
type Store struct {
	pool   *pgxpool.Pool
	limits limit.Defaults
	terms  Terms
}

// Terms are the times of holds.
type Terms struct {
	// Lease is how long a hold stays open when nobody renews it, Orphan how
	// long from the last word that something was served of it.
	Lease, Orphan time.Duration
	// MaxHold is the age beyond which no renewal carries a hold.
	MaxHold time.Duration
}

// New returns a store on a pool opened for Schema and Role. Limits apply to
// accounts without their own.
func New(pool *pgxpool.Pool, limits limit.Defaults, terms Terms) *Store {
	return &Store{pool: pool, limits: limits, terms: terms}
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	return nil
}

// EnsurePartitions makes the partitions of settled usage for the days around
// today and returns how many it made.
func (s *Store) EnsurePartitions(ctx context.Context, back, ahead int) (int, error) {
	var made int
	if err := s.pool.QueryRow(ctx, `SELECT ensure_usage_partitions($1, $2)`, back, ahead).Scan(&made); err != nil {
		return 0, fmt.Errorf("make partitions: %w", err)
	}
	return made, nil
}

func nano(amount int64) money.NanoUSD { return money.NanoUSD(amount) }

// raw is the ids in the form that arrays of uuid are made of.
func raw[K any](list []ids.Of[K]) [][16]byte {
	out := make([][16]byte, len(list))
	for i, id := range list {
		out[i] = id
	}
	return out
}
