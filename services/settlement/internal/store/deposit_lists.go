package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/deposit"
)

const newestFirst = ` ORDER BY t.found_at DESC, t.chain_id, t.tx_hash, t.place`

// OfAccount implements deposit.Lists.
func (s Deposits) OfAccount(
	ctx context.Context, account ids.AccountID, offset, limit int,
) ([]deposit.Transfer, int, error) {
	const where = ` WHERE (a.account_id = $1 OR t.account_id = $1)`
	return s.page(ctx, where, offset, limit, account)
}

// InState implements deposit.Lists.
func (s Deposits) InState(
	ctx context.Context, state deposit.State, offset, limit int,
) ([]deposit.Transfer, int, error) {
	return s.page(ctx, ` WHERE ($1 = '' OR t.state = $1)`, offset, limit, string(state))
}

func (s Deposits) page(
	ctx context.Context, where string, offset, limit int, arg any,
) (list []deposit.Transfer, total int, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT count(*)`+fromTransfers+where, arg).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count transfers: %w", err)
	}
	list, err = s.transfers(ctx, "transfers", where+newestFirst+` OFFSET $2 LIMIT $3`, arg, offset, limit)
	return list, total, err
}

// End implements deposit.Lists.
func (s Deposits) End(ctx context.Context, e deposit.Ending) (t deposit.Transfer, done bool, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		t, done, err = endTransfer(ctx, tx, e)
		return err
	})
	if err != nil {
		return deposit.Transfer{}, false, fmt.Errorf("end a transfer: %w", err)
	}
	return t, done, nil
}

func endTransfer(ctx context.Context, tx pgx.Tx, e deposit.Ending) (deposit.Transfer, bool, error) {
	if _, err := tx.Exec(ctx, durably); err != nil {
		return deposit.Transfer{}, false, err
	}
	var account *ids.AccountID
	var back []byte
	if e.End == deposit.Matched {
		account = &e.Account
	} else {
		back = e.Back[:]
	}
	tag, err := tx.Exec(ctx, `
		UPDATE transfer SET ended = $4, ended_by = $5, end_reason = $6, account_id = $7, return_tx = $8
		WHERE chain_id = $1 AND tx_hash = $2 AND place = $3 AND state IN ('unmatched', 'denied') AND ended IS NULL`,
		e.Chain, e.Transaction[:], e.Place, string(e.End), e.Actor, e.Reason, account, back)
	if err != nil {
		return deposit.Transfer{}, false, err
	}
	rows, err := tx.Query(ctx, `SELECT `+transferColumns+fromTransfers+`
		WHERE t.chain_id = $1 AND t.tx_hash = $2 AND t.place = $3`, e.Chain, e.Transaction[:], e.Place)
	if err != nil {
		return deposit.Transfer{}, false, err
	}
	list, err := pgx.CollectRows(rows, scanTransfer)
	if err != nil || len(list) == 0 {
		return deposit.Transfer{}, false, err
	}
	t := list[0]
	same := t.End == e.End && (e.End != deposit.Matched || t.Account == e.Account) &&
		(e.End != deposit.SentBack || t.ReturnTx == e.Back)
	return t, tag.RowsAffected() == 1 || same, nil
}
