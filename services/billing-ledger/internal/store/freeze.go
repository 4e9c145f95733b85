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
	rows, err := s.pool.Query(ctx, `SELECT cause, ref, at FROM account_freeze WHERE account_id = $1 AND lifted_at IS NULL
		ORDER BY id LIMIT $2`, id, maxFreezes)
	if err != nil {
		return st, fmt.Errorf("read why an account is frozen: %w", err)
	}
	if st.Freezes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[account.Freeze]); err != nil {
		return st, fmt.Errorf("read why an account is frozen: %w", err)
	}
	return st, nil
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
