package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/playground"
)

// lockVisitorSessions is the lock under which sessions of visitors come and go.
const lockVisitorSessions = `SELECT live FROM visitor_session_count FOR UPDATE`

// OpenVisitorSession opens a session; see playground.Store. A visitor whose session stands,
// and a network or a wider network without room, take no lock.
func (s *Store) OpenVisitorSession(ctx context.Context, o playground.Session) (playground.Opened, error) {
	opened, err := standingSession(ctx, s.pool, o)
	if err != nil || !opened.ExpiresAt.IsZero() {
		return opened, err
	}
	opening, counted := o.Opening()
	if counted {
		if err := s.roomFor(ctx, opening); err != nil {
			return opened, err
		}
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		// All openings wait for the lock below, so nothing else is done under it.
		if counted {
			if _, err := takeVisit(ctx, tx, opening); err != nil {
				return err
			}
		}
		var live int
		if err := tx.QueryRow(ctx, lockVisitorSessions).Scan(&live); err != nil {
			return fmt.Errorf("lock the sessions of visitors: %w", err)
		}
		if opened, err = standingSession(ctx, tx, o); err != nil || !opened.ExpiresAt.IsZero() {
			return err
		}
		gone, err := tx.Exec(ctx, `DELETE FROM visitor_session WHERE network = $1 AND expires_at <= clock_timestamp()`,
			o.Network[:])
		if err != nil {
			return fmt.Errorf("delete the old sessions of a network: %w", err)
		}
		if live-int(gone.RowsAffected()) >= playground.MaxSessions {
			return playground.ErrFull
		}
		opened, err = insertVisitorSession(ctx, tx, o)
		return err
	})
	return opened, err
}

// standingSession returns the session of a visitor that stands: the held one, or the one
// that is asked for where an answer was lost. Without one it returns a NetworkFullError for a network
// without room.
func standingSession(ctx context.Context, q querier, o playground.Session) (opened playground.Opened, err error) {
	var (
		secret  []byte
		expires *time.Time
		taken   int
		first   *time.Time
		now     time.Time
	)
	err = q.QueryRow(ctx, `SELECT h.secret_sha256, h.expires_at, n.taken, n.first, clock_timestamp()
		FROM (SELECT count(*) AS taken, min(expires_at) AS first FROM visitor_session
			WHERE network = $1 AND expires_at > clock_timestamp()) n
		LEFT JOIN LATERAL (SELECT secret_sha256, expires_at FROM visitor_session
			WHERE secret_sha256 IN ($2, $3) AND network = $1 AND expires_at > clock_timestamp()
			ORDER BY secret_sha256 = $2 DESC LIMIT 1) h ON true`, o.Network[:], o.Secret[:], o.Held[:]).
		Scan(&secret, &expires, &taken, &first, &now)
	switch {
	case err != nil:
		return opened, fmt.Errorf("look for the sessions of a network: %w", err)
	case expires != nil:
		return playground.Opened{New: playground.Secret(secret) == o.Secret, ExpiresAt: *expires}, nil
	case taken >= playground.MaxOfNetwork && first != nil:
		return opened, &playground.NetworkFullError{Wait: first.Sub(now)}
	}
	return opened, nil
}

// insertVisitorSession gives a session the first free place of its network.
func insertVisitorSession(
	ctx context.Context, tx pgx.Tx, o playground.Session,
) (opened playground.Opened, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO visitor_session (secret_sha256, network, place, opened_at, expires_at)
		SELECT $1, $2, p.place, n.now, n.now + interval '1 hour'
		FROM (SELECT clock_timestamp() AS now) n CROSS JOIN generate_series(1, $3::integer) AS p (place)
		WHERE NOT EXISTS (SELECT FROM visitor_session v WHERE v.network = $2 AND v.place = p.place)
		ORDER BY p.place LIMIT 1 RETURNING expires_at`, o.Secret[:], o.Network[:], playground.MaxOfNetwork).
		Scan(&opened.ExpiresAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return opened, &playground.NetworkFullError{Wait: time.Second}
	case pg.IsCheck(err, "visitor_session_count_bounds"):
		return opened, playground.ErrFull
	case err != nil:
		return opened, fmt.Errorf("insert a session of a visitor: %w", err)
	}
	opened.New = true
	return opened, nil
}

// HasVisitorSession reports whether a session of a network is live.
func (s *Store) HasVisitorSession(
	ctx context.Context, network limit.Address, secret playground.Secret,
) (live bool, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM visitor_session
		WHERE secret_sha256 = $1 AND network = $2 AND expires_at > clock_timestamp())`,
		secret[:], network[:]).Scan(&live); err != nil {
		return false, fmt.Errorf("read a session of a visitor: %w", err)
	}
	return live, nil
}

// PruneVisitorSessions deletes up to limit sessions that are over, and returns how many.
func (s *Store) PruneVisitorSessions(ctx context.Context, limit int) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	var due bool
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM visitor_session WHERE expires_at <= now())`).
		Scan(&due); err != nil || !due {
		return 0, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockVisitorSessions); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `DELETE FROM visitor_session WHERE secret_sha256 IN (
			SELECT secret_sha256 FROM visitor_session WHERE expires_at <= now() ORDER BY expires_at LIMIT $1)`, limit)
		n = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune sessions of visitors: %w", err)
	}
	return n, nil
}
