package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/user"
)

// TakeAttempt counts an attempt to sign in under the locks on its rows; see user.Store.
// An attempt that finds no room takes no lock, because room comes with time alone.
func (s *Store) TakeAttempt(ctx context.Context, e user.Email, network user.Digest) (user.Attempt, error) {
	a := user.Attempt{Network: network}
	var counts user.Counts
	var now time.Time
	digest := e.Digest()
	if err := s.pool.QueryRow(ctx, `SELECT
			coalesce((SELECT full_at FROM sign_in_count WHERE email_sha256 = $1 AND network = $2), now()),
			coalesce((SELECT full_at FROM sign_in_count WHERE email_sha256 = $1 AND network = $3), now()),
			EXISTS (SELECT FROM known_network k JOIN app_user u ON u.id = k.user_id
				WHERE u.email = $4 AND k.network = $2 AND k.used_at > now() - $5::interval), clock_timestamp()`,
		digest[:], network[:], user.Strangers[:], string(e), user.NetworkKept).Scan(&counts.Network, &counts.Strangers,
		&a.Known, &now); err != nil {
		return a, fmt.Errorf("read the attempts of an e-mail: %w", err)
	}
	if err := counts.Room(a.Known, now); err != nil {
		return a, err
	}
	return a, s.inTx(ctx, func(tx pgx.Tx) error {
		var batch pgx.Batch
		count(&batch, digest, network, user.NetworkPace, &counts.Network, &now)
		if !a.Known {
			count(&batch, digest, user.Strangers, user.StrangersPace, &counts.Strangers, &now)
		}
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return fmt.Errorf("count an attempt to sign in: %w", err)
		}
		return counts.Room(a.Known, now) // else nothing was counted
	})
}

// count moves a row on by one attempt and returns where the row was. It reads the time
// after locking the row, so that no attempt is earlier than an attempt that it waited for.
func count(batch *pgx.Batch, digest, network user.Digest, pace user.Pace, full, now *time.Time) {
	batch.Queue(
		`INSERT INTO sign_in_count AS c (email_sha256, network, full_at) VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (email_sha256, network) DO UPDATE SET full_at = greatest(c.full_at, clock_timestamp()) + $3::interval
		RETURNING full_at - $3::interval, clock_timestamp()`, digest[:], network[:], pace.Interval).
		QueryRow(func(row pgx.Row) error { return row.Scan(full, now) })
}

// GiveBack takes an attempt back; see user.Store.
func (s *Store) GiveBack(ctx context.Context, e user.Email, a user.Attempt) error {
	return s.inTx(ctx, func(tx pgx.Tx) error { return uncount(ctx, tx, e, a) })
}

// uncount moves the rows of an attempt back, in the order in which they were moved on. An
// attempt is under way for seconds, so its rows have not been whole again meanwhile.
func uncount(ctx context.Context, tx pgx.Tx, e user.Email, a user.Attempt) error {
	digest := e.Digest()
	if err := moveBack(ctx, tx, digest, a.Network, user.NetworkPace); err != nil {
		return fmt.Errorf("take an attempt of a network back: %w", err)
	}
	if a.Known {
		return nil
	}
	if err := moveBack(ctx, tx, digest, user.Strangers, user.StrangersPace); err != nil {
		return fmt.Errorf("take an attempt of a stranger back: %w", err)
	}
	return nil
}

// moveBack undoes count for one row.
func moveBack(ctx context.Context, tx pgx.Tx, digest, network user.Digest, pace user.Pace) error {
	_, err := tx.Exec(ctx, `UPDATE sign_in_count SET full_at = full_at - $3::interval
		WHERE email_sha256 = $1 AND network = $2`, digest[:], network[:], pace.Interval)
	return err
}

// rememberNetwork stores that a user, who is locked, signs in from a network. When the
// user has as many networks as it may, the network takes the place of the network that was
// used least recently.
func rememberNetwork(ctx context.Context, tx pgx.Tx, id user.ID, network user.Digest) error {
	tag, err := tx.Exec(ctx, `UPDATE known_network SET used_at = now() WHERE user_id = $1 AND network = $2`, [16]byte(id),
		network[:])
	if err != nil {
		return fmt.Errorf("note the use of a network: %w", err)
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `DELETE FROM known_network WHERE user_id = $1 AND network IN (
			SELECT network FROM known_network WHERE user_id = $1 ORDER BY used_at DESC, network OFFSET $2)`, [16]byte(id),
		user.MaxNetworks-1); err != nil {
		return fmt.Errorf("forget a network: %w", err)
	}
	return insertNetwork(ctx, tx, id, network)
}

func insertNetwork(ctx context.Context, tx pgx.Tx, id user.ID, network user.Digest) error {
	if _, err := tx.Exec(ctx, `INSERT INTO known_network (user_id, network, used_at) VALUES ($1, $2, now())`, [16]byte(id),
		network[:]); err != nil {
		return fmt.Errorf("remember a network: %w", err)
	}
	return nil
}

// PruneAttempts deletes up to limit rows of attempts that no longer count, and returns
// how many.
func (s *Store) PruneAttempts(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "attempts to sign in", `DELETE FROM sign_in_count WHERE (email_sha256, network) IN (
		SELECT email_sha256, network FROM sign_in_count WHERE full_at <= now() ORDER BY full_at LIMIT $1
			FOR UPDATE SKIP LOCKED)`, limit)
}

// PruneNetworks deletes up to limit networks that nobody has signed in from for
// user.NetworkKept, and returns how many.
func (s *Store) PruneNetworks(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "known networks", `DELETE FROM known_network WHERE (user_id, network) IN (
		SELECT user_id, network FROM known_network WHERE used_at <= now() - $2::interval ORDER BY used_at LIMIT $1
			FOR UPDATE SKIP LOCKED)`, limit, user.NetworkKept)
}
