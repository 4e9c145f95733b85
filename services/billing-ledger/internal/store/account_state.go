package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
)

// SetState freezes or opens an account and keeps the change; see account.Store. It holds
// the lock on the wallet, so no request of the account is admitted meanwhile, and every
// later admission sees the new state.
func (s *Store) SetState(
	ctx context.Context, id ids.AccountID, state account.State, memo string,
) (account.Account, error) {
	var changed account.Account
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, [16]byte(id)); err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		tag, err := tx.Exec(ctx, `UPDATE account SET state = $2 WHERE id = $1 AND state <> $2`, [16]byte(id), string(state))
		if err != nil {
			return fmt.Errorf("update account: %w", err)
		}
		if tag.RowsAffected() > 0 {
			if _, err := tx.Exec(ctx, `INSERT INTO account_state_change (account_id, state, memo) VALUES ($1, $2, $3)`,
				[16]byte(id), string(state), memo); err != nil {
				return fmt.Errorf("insert change: %w", err)
			}
			if err := audited(ctx, tx, setState, [16]byte(id), details{"state": state, "memo": memo}); err != nil {
				return err
			}
		}
		changed, err = readAccount(ctx, tx, id)
		return err
	})
	return changed, err
}
