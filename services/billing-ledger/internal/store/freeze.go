package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
)

// freeze adds a cause to freeze an account, and reports whether it is new. The caller has the lock
// on the wallet, so that every later admission sees the cause, once followCauses is called.
func freeze(ctx context.Context, tx pgx.Tx, id ids.AccountID, cause account.Cause, ref string) (bool, error) {
	tag, err := tx.Exec(ctx, `INSERT INTO account_freeze (account_id, cause, ref) VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`, id, string(cause), ref)
	if err != nil {
		return false, fmt.Errorf("freeze an account: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// lift lifts causes of one thing. The caller has the lock on the wallet.
func lift(ctx context.Context, tx pgx.Tx, id ids.AccountID, ref string, causes ...account.Cause) error {
	names := make([]string, len(causes))
	for i, c := range causes {
		names[i] = string(c)
	}
	_, err := tx.Exec(ctx, `UPDATE account_freeze SET lifted_at = now()
		WHERE account_id = $1 AND ref = $2 AND cause = ANY ($3) AND lifted_at IS NULL`, id, ref, names)
	if err != nil {
		return fmt.Errorf("lift a cause: %w", err)
	}
	return nil
}

// followCauses has the state of an account follow its causes, and keeps the change with its memo.
func followCauses(ctx context.Context, tx pgx.Tx, id ids.AccountID, memo string) error {
	if _, err := tx.Exec(ctx, `WITH now_is AS (
			SELECT CASE WHEN EXISTS (SELECT FROM account_freeze WHERE account_id = $1 AND lifted_at IS NULL)
				THEN 'frozen' ELSE 'open' END AS state
		), changed AS (
			UPDATE account a SET state = n.state FROM now_is n WHERE a.id = $1 AND a.state <> n.state RETURNING a.state
		)
		INSERT INTO account_state_change (account_id, state, memo) SELECT $1, state, $2 FROM changed`, id, memo); err != nil {
		return fmt.Errorf("change the state of an account: %w", err)
	}
	return nil
}

// Standing implements account.Standings.
func (s *Store) Standing(ctx context.Context, id ids.AccountID) (account.Standing, error) {
	var st account.Standing
	if err := s.pool.QueryRow(ctx, `SELECT coalesce(sum(owed - paid - lost - undone), 0)::bigint FROM card_debt
		WHERE account_id = $1 AND due_at IS NOT NULL`, id).Scan(&st.Owed); err != nil {
		return st, fmt.Errorf("read what an account owes: %w", err)
	}
	var err error
	if st.Freezes, err = freezesOf(ctx, s.pool, `AND lifted_at IS NULL ORDER BY id`, id); err != nil {
		return st, err
	}
	rows, err := s.pool.Query(ctx, `SELECT reversal_id, owed, paid, lost, undone, at FROM card_debt WHERE account_id = $1
		ORDER BY at DESC, reversal_id LIMIT $2`, id, maxFreezes)
	if err != nil {
		return st, fmt.Errorf("read the debts of an account: %w", err)
	}
	if st.Debts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[account.Debt]); err != nil {
		return st, fmt.Errorf("read the debts of an account: %w", err)
	}
	return st, nil
}

// freezesOf reads causes of an account.
func freezesOf(ctx context.Context, from reader, which string, id ids.AccountID) ([]account.Freeze, error) {
	rows, err := from.Query(ctx, `SELECT cause, ref, at, coalesce(lifted_at, '0001-01-01') FROM account_freeze
		WHERE account_id = $1 `+which+` LIMIT $2`, id, maxFreezes)
	if err != nil {
		return nil, fmt.Errorf("read why an account is frozen: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[account.Freeze])
	if err != nil {
		return nil, fmt.Errorf("read why an account is frozen: %w", err)
	}
	return list, nil
}

// Freezes implements account.FreezeStore.
func (s *Store) Freezes(ctx context.Context, id ids.AccountID) ([]account.Freeze, error) {
	if _, err := s.Account(ctx, id); err != nil {
		return nil, err
	}
	return freezesOf(ctx, s.pool, `ORDER BY id DESC`, id)
}

// FreezeBy implements account.FreezeStore.
func (s *Store) FreezeBy(ctx context.Context, id ids.AccountID, ref, note string) error {
	return s.byCause(ctx, id, froze, account.ByOperator, ref, note, func(tx pgx.Tx) (bool, error) {
		return freeze(ctx, tx, id, account.ByOperator, ref)
	})
}

// LiftCause implements account.FreezeStore.
func (s *Store) LiftCause(ctx context.Context, id ids.AccountID, cause account.Cause, ref, note string) error {
	return s.byCause(ctx, id, liftedFreeze, cause, ref, note, func(tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, `UPDATE account_freeze SET lifted_at = now()
			WHERE account_id = $1 AND cause = $2 AND ref = $3 AND lifted_at IS NULL`, id, string(cause), ref)
		if err != nil {
			return false, fmt.Errorf("lift a cause: %w", err)
		}
		return tag.RowsAffected() > 0, nil
	})
}

// byCause changes a cause under the lock on the wallet, so that every later admission sees it. What
// changes nothing leaves no action.
func (s *Store) byCause(
	ctx context.Context, id ids.AccountID, did action, cause account.Cause, ref, note string,
	change func(pgx.Tx) (bool, error),
) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, id)
		switch {
		case err != nil:
			return fmt.Errorf("lock wallet: %w", err)
		case tag.RowsAffected() == 0:
			return account.ErrNotFound
		}
		changed, err := change(tx)
		if err != nil || !changed {
			return err
		}
		if err := followCauses(ctx, tx, id, note); err != nil {
			return err
		}
		return addAct(ctx, tx, did, [16]byte(id), details{"cause": string(cause), "ref": ref, "note": note})
	})
}

// maxFreezes bounds the causes that are shown of an account.
const maxFreezes = 100

// causes reads why each of some accounts is frozen.
func (s *Store) causes(ctx context.Context, accounts [][16]byte) (map[ids.AccountID][]account.Cause, error) {
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT account_id, cause FROM account_freeze
		WHERE account_id = ANY ($1) AND lifted_at IS NULL ORDER BY account_id, cause`, accounts)
	if err != nil {
		return nil, fmt.Errorf("read why accounts are frozen: %w", err)
	}
	found := map[ids.AccountID][]account.Cause{}
	var id ids.AccountID
	var cause account.Cause
	_, err = pgx.ForEachRow(rows, []any{&id, &cause}, func() error {
		found[id] = append(found[id], cause)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read why accounts are frozen: %w", err)
	}
	return found, nil
}
