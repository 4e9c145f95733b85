package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
)

// SetState adds an operator's cause to freeze an account, or lifts what an operator may lift; see
// account.Store. It holds the lock on the wallet, so no request of the account is admitted
// meanwhile, and every later admission sees the new state. An account with another cause stays
// frozen.
func (s *Store) SetState(
	ctx context.Context, id ids.AccountID, state account.State, memo string,
) (account.Account, error) {
	var changed account.Account
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, [16]byte(id))
		if err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return account.ErrNotFound
		}
		did, err := setByOperator(ctx, tx, id, state)
		if err != nil {
			return err
		}
		if did {
			if err := followCauses(ctx, tx, id, memo); err != nil {
				return err
			}
			if err := addAct(ctx, tx, setState, [16]byte(id), details{"state": state, "memo": memo}); err != nil {
				return err
			}
		}
		changed, err = readAccount(ctx, tx, id)
		return err
	})
	return changed, err
}

// setByOperator reports whether it has changed anything.
func setByOperator(ctx context.Context, tx pgx.Tx, id ids.AccountID, state account.State) (bool, error) {
	if state == account.Frozen {
		return freeze(ctx, tx, id, account.ByOperator, "")
	}
	tag, err := tx.Exec(ctx, `UPDATE account_freeze SET lifted_at = now()
		WHERE account_id = $1 AND cause IN ('operator', 'loss') AND lifted_at IS NULL`, [16]byte(id))
	if err != nil {
		return false, fmt.Errorf("lift an operator's causes: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}
