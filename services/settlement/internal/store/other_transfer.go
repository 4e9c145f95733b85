package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/deposit"
)

// returnOther notes that a transfer of another token was sent back. Such a transfer cannot be matched.
func returnOther(ctx context.Context, tx pgx.Tx, e deposit.Ending) (deposit.Transfer, bool, error) {
	if e.End == deposit.SentBack {
		if _, err := tx.Exec(ctx, `UPDATE other_transfer
			SET state = 'returned', return_tx = $4, ended_by = $5, end_reason = $6
			WHERE chain_id = $1 AND tx_hash = $2 AND place = $3 AND state = 'unmatched'`,
			e.Chain, e.Transaction[:], e.Place, e.Back[:], e.Actor, e.Reason); err != nil {
			return deposit.Transfer{}, false, err
		}
	}
	rows, err := tx.Query(ctx, `SELECT `+transferColumns+fromArrivals+`
		WHERE t.chain_id = $1 AND t.tx_hash = $2 AND t.place = $3`, e.Chain, e.Transaction[:], e.Place)
	if err != nil {
		return deposit.Transfer{}, false, err
	}
	t, err := pgx.CollectExactlyOneRow(rows, scanTransfer)
	if errors.Is(err, pgx.ErrNoRows) {
		return deposit.Transfer{}, false, nil
	}
	return t, err == nil && e.End == deposit.SentBack && t.State == deposit.Returned && t.ReturnTx == e.Back, err
}
