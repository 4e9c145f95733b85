package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/operator"
)

// Operators keeps operators; it implements operator.Store.
//
// Whoever makes an operator holds the advisory lock on all of them, and so does whoever takes
// an active admin away, behind the lock on that admin's row. Nothing here locks a wallet, an
// account or a user beside them.
type Operators struct{ *Store }

var _ operator.Store = Operators{}

// The last two columns are for how long an operator has been active, by this clock, and the last
// use of its sessions.
const operatorColumns = `o.id, o.name, o.role, o.state, o.created_at,
	coalesce(now() - o.active_since, interval '0'),
	(SELECT max(s.used_at) FROM operator_session s WHERE s.operator_id = o.id)`

func scanOperator(row pgx.Row, more ...any) (o operator.Operator, err error) {
	var seen *time.Time
	err = row.Scan(append([]any{&o.ID, &o.Name, &o.Role, &o.State, &o.CreatedAt, &o.ActiveFor, &seen}, more...)...)
	if seen != nil {
		o.SeenAt = *seen
	}
	return o, err
}

// noOperator maps the error of a missing row to operator.ErrNotFound and wraps every other
// error.
func noOperator(err error, attempted string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return operator.ErrNotFound
	}
	return fmt.Errorf("%s: %w", attempted, err)
}

// Add implements operator.Store.
func (s Operators) Add(
	ctx context.Context, o operator.Operator, t operator.Ticket,
) (added operator.Operator, until time.Time, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		added, until, err = insertOperator(ctx, tx, o, t)
		return err
	})
	return added, until, err
}

// insertOperator stores an invited operator with the audit entry.
func insertOperator(
	ctx context.Context, tx pgx.Tx, o operator.Operator, t operator.Ticket,
) (operator.Operator, time.Time, error) {
	var until time.Time
	added, err := scanOperator(tx.QueryRow(ctx, `INSERT INTO operator AS o
			(id, name, role, ticket_sha256, ticket_at, ticket_until)
		VALUES ($1, $2, $3, $4, now(), now() + $5::interval) RETURNING `+operatorColumns+`, o.ticket_until`, o.ID,
		string(o.Name), string(o.Role), t.Digest[:], t.Life), &until)
	switch {
	case pg.IsUnique(err, "operator_name_key"):
		return added, until, operator.NameTaken()
	case pg.IsCheck(err, "operator_bound"):
		return added, until, operator.TooMany()
	case err != nil:
		return added, until, fmt.Errorf("insert operator: %w", err)
	}
	return added, until, addAct(ctx, tx, invitedOperator, added.ID, details{"name": added.Name, "role": added.Role})
}

// AddFirst implements operator.Store.
func (s Operators) AddFirst(
	ctx context.Context, o operator.Operator, t operator.Ticket,
) (added operator.Operator, until time.Time, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		var hasAdmin bool
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('operator'))`); err != nil {
			return fmt.Errorf("lock the operators: %w", err)
		}
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM operator WHERE role = 'admin' AND state = 'active')`).Scan(
			&hasAdmin)
		if err != nil {
			return fmt.Errorf("look for an admin: %w", err)
		}
		if hasAdmin {
			return operator.NotFirst()
		}
		if _, err := tx.Exec(ctx, `UPDATE operator SET state = 'ended', `+bare+` WHERE state = 'invited' AND name <> $1`,
			string(o.Name)); err != nil {
			return fmt.Errorf("take invitations back: %w", err)
		}
		var known operator.ID
		err = tx.QueryRow(ctx, `UPDATE operator SET role = 'admin' WHERE name = $1 AND state = 'invited' RETURNING id`,
			string(o.Name)).Scan(&known)
		if errors.Is(err, pgx.ErrNoRows) {
			added, until, err = insertOperator(ctx, tx, o, t)
			return err
		}
		if err != nil {
			return fmt.Errorf("find the first operator: %w", err)
		}
		added, until, err = inviteAgain(ctx, tx, known, t, invitedOperator)
		return err
	})
	return added, until, err
}

// bare takes an operator's secrets away.
const bare = `ticket_sha256 = NULL, ticket_at = NULL, ticket_until = NULL, password_hash = NULL, totp_sealed = NULL,
	totp_step = 0, active_since = NULL`

// inviteAgain has an operator who is locked begin anew, with the audit entry.
func inviteAgain(
	ctx context.Context, tx pgx.Tx, id operator.ID, t operator.Ticket, did action,
) (operator.Operator, time.Time, error) {
	var until time.Time
	again, err := scanOperator(tx.QueryRow(ctx, `UPDATE operator o SET state = 'invited', password_hash = NULL,
			totp_sealed = NULL, totp_step = 0, active_since = NULL, ticket_sha256 = $2, ticket_at = now(),
			ticket_until = now() + $3::interval
		WHERE o.id = $1 RETURNING `+operatorColumns+`, o.ticket_until`, id, t.Digest[:], t.Life), &until)
	if pg.IsCheck(err, "operator_keeps_an_admin") {
		return again, until, operator.LastAdmin()
	}
	if err != nil {
		return again, until, fmt.Errorf("invite an operator again: %w", err)
	}
	return again, until, addAct(ctx, tx, did, id, details{"name": again.Name, "role": again.Role})
}

// ByTicket implements operator.Store.
func (s Operators) ByTicket(
	ctx context.Context, ticket operator.Digest,
) (found operator.Operator, sealed operator.Sealed, err error) {
	found, err = scanOperator(s.pool.QueryRow(ctx, `SELECT `+operatorColumns+`, o.totp_sealed FROM operator o
		WHERE o.ticket_sha256 = $1 AND o.ticket_until > now()`, ticket[:]), (*[]byte)(&sealed))
	if err != nil {
		return operator.Operator{}, nil, noOperator(err, "select the operator of a ticket")
	}
	return found, sealed, nil
}

// Accept implements operator.Store.
func (s Operators) Accept(ctx context.Context, a operator.Acceptance) (until time.Time, err error) {
	err = s.pool.QueryRow(ctx, `UPDATE operator SET password_hash = $3, totp_sealed = $4, totp_pepper = $7, totp_step = 0,
			ticket_sha256 = $5, ticket_at = now(), ticket_until = now() + $6::interval
		WHERE id = $1 AND ticket_sha256 = $2 AND ticket_until > now() AND password_hash IS NULL RETURNING ticket_until`,
		a.ID, a.Invitation[:], a.Password.Text(), []byte(a.Secret), a.Confirmation.Digest[:],
		a.Confirmation.Life, a.Pepper).Scan(&until)
	if err != nil {
		return time.Time{}, noOperator(err, "accept an invitation")
	}
	return until, nil
}

// Activate implements operator.Store. The operator acts itself.
func (s Operators) Activate(
	ctx context.Context, id operator.ID, confirmation operator.Digest, step int64,
) (active operator.Operator, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		active, err = scanOperator(tx.QueryRow(ctx, `UPDATE operator o SET state = 'active', totp_step = $3,
				active_since = now(), ticket_sha256 = NULL, ticket_at = NULL, ticket_until = NULL
			WHERE o.id = $1 AND o.ticket_sha256 = $2 AND o.ticket_until > now() AND o.password_hash IS NOT NULL
				AND o.totp_step < $3 RETURNING `+operatorColumns, id, confirmation[:], step))
		if err != nil {
			return noOperator(err, "activate an operator")
		}
		return addAct(actor.WithOperator(ctx, active.Called()), tx, activeOperator, id, nil)
	})
	return active, err
}

// List implements operator.Store.
func (s Operators) List(ctx context.Context) ([]operator.Operator, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+operatorColumns+` FROM operator o ORDER BY o.name LIMIT $1`,
		operator.MaxOperators)
	if err != nil {
		return nil, fmt.Errorf("list operators: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (operator.Operator, error) {
		return scanOperator(row)
	})
	if err != nil {
		return nil, fmt.Errorf("list operators: %w", err)
	}
	return list, nil
}

// lockOperator locks an operator and reads it. It fails with operator.NotFound.
func lockOperator(ctx context.Context, tx pgx.Tx, id operator.ID) (operator.Operator, error) {
	o, err := scanOperator(tx.QueryRow(ctx, `SELECT `+operatorColumns+` FROM operator o WHERE o.id = $1
		FOR NO KEY UPDATE OF o`, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return o, operator.NotFound()
	}
	if err != nil {
		return o, fmt.Errorf("lock an operator: %w", err)
	}
	return o, nil
}

// SetRole implements operator.Store.
func (s Operators) SetRole(
	ctx context.Context, id operator.ID, role operator.Role,
) (o operator.Operator, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		if o, err = lockOperator(ctx, tx, id); err != nil || o.Role == role {
			return err
		}
		if o.State == operator.Ended {
			return operator.HasEnded()
		}
		was := o.Role
		o, err = scanOperator(tx.QueryRow(ctx, `UPDATE operator o SET role = $2 WHERE o.id = $1 RETURNING `+operatorColumns,
			id, string(role)))
		if pg.IsCheck(err, "operator_keeps_an_admin") {
			return operator.LastAdmin()
		}
		if err != nil {
			return fmt.Errorf("set the role of an operator: %w", err)
		}
		return addAct(ctx, tx, setOperatorRole, id, details{"name": o.Name, "from": was, "to": role})
	})
	return o, err
}

// ResetOperator implements operator.Store.
func (s Operators) ResetOperator(
	ctx context.Context, id operator.ID, t operator.Ticket,
) (o operator.Operator, until time.Time, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		if o, err = lockOperator(ctx, tx, id); err != nil {
			return err
		}
		if _, err := o.State.Next(operator.Reset); err != nil {
			return err
		}
		if err := endOperatorSessions(ctx, tx, id); err != nil {
			return err
		}
		o, until, err = inviteAgain(ctx, tx, id, t, resetOperator)
		return err
	})
	return o, until, err
}

// EndOperator implements operator.Store.
func (s Operators) EndOperator(ctx context.Context, id operator.ID) (o operator.Operator, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		if o, err = lockOperator(ctx, tx, id); err != nil || o.State == operator.Ended {
			return err
		}
		next, err := o.State.Next(operator.End)
		if err != nil {
			return err
		}
		if err := endOperatorSessions(ctx, tx, id); err != nil {
			return err
		}
		o, err = scanOperator(tx.QueryRow(ctx, `UPDATE operator o SET state = $2, `+bare+` WHERE o.id = $1
			RETURNING `+operatorColumns, id, string(next)))
		if pg.IsCheck(err, "operator_keeps_an_admin") {
			return operator.LastAdmin()
		}
		if err != nil {
			return fmt.Errorf("end an operator: %w", err)
		}
		return addAct(ctx, tx, endedOperator, id, details{"name": o.Name})
	})
	return o, err
}

// endOperatorSessions ends all sessions of an operator.
func endOperatorSessions(ctx context.Context, tx pgx.Tx, id operator.ID) error {
	if _, err := tx.Exec(ctx, `UPDATE operator_session SET ended_at = now() WHERE operator_id = $1 AND ended_at IS NULL`,
		id); err != nil {
		return fmt.Errorf("end the sessions of an operator: %w", err)
	}
	return nil
}
