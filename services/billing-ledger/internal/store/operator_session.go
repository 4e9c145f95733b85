package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/services/billing-ledger/internal/operator"
	"svc.internal/services/billing-ledger/internal/user"
)

// ByName implements operator.Store.
func (s Operators) ByName(
	ctx context.Context, name operator.Name,
) (found operator.Operator, hash user.Hash, sealed operator.Sealed, err error) {
	var kept string
	found, err = scanOperator(s.pool.QueryRow(ctx, `SELECT `+operatorColumns+`, o.password_hash, o.totp_sealed
		FROM operator o WHERE o.name = $1 AND o.state = 'active'`, string(name)), &kept, (*[]byte)(&sealed))
	if err != nil {
		return operator.Operator{}, user.Hash{}, nil, noOperator(err, "select operator")
	}
	if hash, err = user.ParseHash(kept); err != nil {
		return operator.Operator{}, user.Hash{}, nil, fmt.Errorf("read the hash of an operator: %w", err)
	}
	return found, hash, sealed, nil
}

// Count implements operator.Store. An attempt that finds no room takes no lock, because room
// comes with time alone.
func (s Operators) Count(ctx context.Context, a operator.Attempt) (operator.Attempt, error) {
	var counts user.Counts
	var now time.Time
	if err := s.pool.QueryRow(ctx, `SELECT
			coalesce((SELECT full_at FROM sign_in_count WHERE email_sha256 = $1 AND network = $2), now()),
			coalesce((SELECT full_at FROM sign_in_count WHERE email_sha256 = $1 AND network = $3), now()),
			EXISTS (SELECT FROM operator_session s JOIN operator o ON o.id = s.operator_id
				WHERE o.name = $4 AND s.network = $2 AND s.created_at > now() - $5::interval), clock_timestamp()`,
		a.Subject[:], a.Network[:], user.Strangers[:], string(a.Name), operator.SessionKept).Scan(&counts.Network,
		&counts.Strangers, &a.Known, &now); err != nil {
		return a, fmt.Errorf("read the attempts under a name: %w", err)
	}
	if err := operator.Room(counts, a.Known, now); err != nil {
		return a, err
	}
	return a, s.inTx(ctx, func(tx pgx.Tx) error {
		var batch pgx.Batch
		count(&batch, a.Subject, a.Network, operator.NetworkPace, &counts.Network, &now)
		if !a.Known {
			count(&batch, a.Subject, user.Strangers, operator.StrangersPace, &counts.Strangers, &now)
		}
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return fmt.Errorf("count an attempt of an operator: %w", err)
		}
		return operator.Room(counts, a.Known, now) // else nothing was counted
	})
}

// Uncount implements operator.Store.
func (s Operators) Uncount(ctx context.Context, a operator.Attempt) error {
	return s.inTx(ctx, func(tx pgx.Tx) error { return uncountOperator(ctx, tx, a) })
}

// uncountOperator moves the rows of an attempt back, in the order in which they were moved on.
func uncountOperator(ctx context.Context, tx pgx.Tx, a operator.Attempt) error {
	const back = `UPDATE sign_in_count SET full_at = full_at - $3::interval WHERE email_sha256 = $1 AND network = $2`
	if _, err := tx.Exec(ctx, back, a.Subject[:], a.Network[:], operator.NetworkPace.Interval); err != nil {
		return fmt.Errorf("take an attempt of a network back: %w", err)
	}
	if a.Known {
		return nil
	}
	if _, err := tx.Exec(ctx, back, a.Subject[:], user.Strangers[:], operator.StrangersPace.Interval); err != nil {
		return fmt.Errorf("take an attempt of a stranger back: %w", err)
	}
	return nil
}

// Open implements operator.Store. The operator acts itself.
func (s Operators) Open(ctx context.Context, n operator.NewSession) (until time.Time, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := uncountOperator(ctx, tx, n.Attempt); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE operator SET totp_step = $2, totp_sealed = coalesce($4, totp_sealed),
				totp_pepper = CASE WHEN $4::bytea IS NULL THEN totp_pepper ELSE $5 END
			WHERE id = $1 AND state = 'active' AND password_hash = $3 AND totp_step < $2`, n.Operator.ID, n.Step, n.Was,
			[]byte(n.Renewed), n.Pepper)
		if err != nil {
			return fmt.Errorf("use the code of an operator: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return operator.ErrChanged
		}
		if _, err := tx.Exec(ctx, `DELETE FROM operator_session WHERE operator_id = $1 AND id IN (
				SELECT id FROM operator_session WHERE operator_id = $1 ORDER BY created_at DESC, id OFFSET $2)`,
			n.Operator.ID, operator.MaxSessions-1); err != nil {
			return fmt.Errorf("forget sessions of an operator: %w", err)
		}
		if err := tx.QueryRow(ctx, `INSERT INTO operator_session (id, operator_id, token_sha256, network, expires_at)
			VALUES ($1, $2, $3, $4, now() + $5::interval) RETURNING expires_at`, n.ID, n.Operator.ID, n.Token[:],
			n.Attempt.Network[:], operator.SessionLife).Scan(&until); err != nil {
			return fmt.Errorf("insert the session of an operator: %w", err)
		}
		return addAct(actor.WithOperator(ctx, n.Operator.Called()), tx, signedIn, n.Operator.ID, nil)
	})
	return until, err
}

// BySession implements operator.Store.
func (s Operators) BySession(ctx context.Context, token operator.Digest) (found operator.SignedIn, err error) {
	var lives, stale bool
	found.Operator, err = scanOperator(s.pool.QueryRow(ctx, `SELECT `+operatorColumns+`, t.id, t.expires_at,
			t.ended_at IS NULL AND t.expires_at > now() AND t.used_at > now() - $2::interval AND o.state = 'active',
			t.used_at <= now() - $3::interval
		FROM operator_session t JOIN operator o ON o.id = t.operator_id WHERE t.token_sha256 = $1`, token[:],
		operator.IdleTimeout, operator.UseInterval), &found.Session, &found.ExpiresAt, &lives, &stale)
	switch {
	case err != nil:
		return operator.SignedIn{}, noOperator(err, "select the session of an operator")
	case !lives:
		return operator.SignedIn{}, operator.ErrOver
	case !stale:
		return found, nil
	}
	// A session that another call ends or notes meanwhile is left alone.
	if _, err := s.pool.Exec(ctx, `UPDATE operator_session SET used_at = now()
		WHERE id = $1 AND ended_at IS NULL AND used_at <= now() - $2::interval`, found.Session,
		operator.UseInterval); err != nil {
		return operator.SignedIn{}, fmt.Errorf("note the use of a session: %w", err)
	}
	return found, nil
}

// EndSession implements operator.Store.
func (s Operators) EndSession(ctx context.Context, id operator.SessionID) error {
	if _, err := s.pool.Exec(ctx, `UPDATE operator_session SET ended_at = now() WHERE id = $1 AND ended_at IS NULL`,
		id); err != nil {
		return fmt.Errorf("end the session of an operator: %w", err)
	}
	return nil
}

// PruneOperatorSessions deletes up to limit sessions that are older than
// operator.SessionKept, and returns how many.
func (s *Store) PruneOperatorSessions(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "sessions of operators", `DELETE FROM operator_session WHERE id IN (
		SELECT id FROM operator_session WHERE created_at <= now() - $2::interval ORDER BY created_at LIMIT $1
			FOR UPDATE SKIP LOCKED)`, limit, operator.SessionKept)
}
