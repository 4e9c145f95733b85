package store

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
)

const newestFirst = ` ORDER BY t.found_at DESC, t.chain_id, t.tx_hash, t.place`

// OfAccount implements deposit.Lists.
func (s Deposits) OfAccount(
	ctx context.Context, account ids.AccountID, offset, limit int,
) ([]deposit.Transfer, int, error) {
	index, err := s.indexOf(ctx, account)
	if err != nil {
		return nil, 0, err
	}
	// Both ways to belong to the account have an index.
	const where = ` WHERE (t.deposit_index = $1 OR t.ended = 'matched' AND t.account_id = $2)`
	return s.page(ctx, where, offset, limit, index, account)
}

// indexOf returns the index of an account's address, and -1 for none.
func (s Deposits) indexOf(ctx context.Context, account ids.AccountID) (int64, error) {
	a, ok, err := s.addressOf(ctx, s.pool, account)
	if err != nil || !ok {
		return -1, err
	}
	return int64(a.Index), nil
}

// InState implements deposit.Lists.
func (s Deposits) InState(
	ctx context.Context, state deposit.State, offset, limit int,
) ([]deposit.Transfer, int, error) {
	if state == "" {
		return s.page(ctx, ` WHERE true`, offset, limit)
	}
	return s.page(ctx, ` WHERE t.state = $1`, offset, limit, string(state))
}

func (s Deposits) page(
	ctx context.Context, where string, offset, limit int, args ...any,
) (list []deposit.Transfer, total int, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT count(*)`+fromArrivals+where, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count transfers: %w", err)
	}
	n := len(args)
	list, err = s.list(ctx, "transfers", fmt.Sprintf(`%s%s%s OFFSET $%d LIMIT $%d`, fromArrivals, where, newestFirst, n+1,
		n+2), append(args, offset, limit)...)
	return list, total, err
}

// OpenSums implements deposit.Lists.
func (s Deposits) OpenSums(ctx context.Context, account ids.AccountID) ([]deposit.OpenSum, error) {
	index, err := s.indexOf(ctx, account)
	if err != nil || index < 0 {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT chain_id, token, sum(amount)::text, sum(units)::text, count(*) FROM transfer
		WHERE deposit_index = $1 AND state = 'final' AND decision IS NULL GROUP BY chain_id, token ORDER BY chain_id, token`,
		index)
	if err != nil {
		return nil, fmt.Errorf("sum what is not credited: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanOpenSum)
	if err != nil {
		return nil, fmt.Errorf("sum what is not credited: %w", err)
	}
	return list, nil
}

func scanOpenSum(row pgx.CollectableRow) (o deposit.OpenSum, err error) {
	var amount, units string
	if err := row.Scan(&o.Chain, &o.Token, &amount, &units, &o.Transfers); err != nil {
		return o, err
	}
	if o.Amount, err = chain.ParseAmount(amount); err != nil {
		return o, err
	}
	if o.Units, err = strconv.ParseInt(units, 10, 64); err != nil {
		o.Units = math.MaxInt64 // it has no value that can be counted
	}
	return o, nil
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
	if err != nil {
		return deposit.Transfer{}, false, err
	}
	if len(list) == 0 {
		return returnOther(ctx, tx, e)
	}
	t := list[0]
	same := t.End == e.End && (e.End != deposit.Matched || t.Account == e.Account) &&
		(e.End != deposit.SentBack || t.ReturnTx == e.Back)
	return t, tag.RowsAffected() == 1 || same, nil
}
