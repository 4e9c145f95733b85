package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/watch"
)

// GrowthDue implements deposit.GrowthStore. A halted chain is not looked at.
func (s Deposits) GrowthDue(ctx context.Context, id chain.ID) (b chain.Block, due bool, err error) {
	var hash []byte
	err = s.pool.QueryRow(ctx, `
		WITH hour AS (
			INSERT INTO balance_check (chain_id, hour, block)
			SELECT chain_id, date_trunc('hour', clock_timestamp(), 'UTC'), block FROM chain_cursor c WHERE chain_id = $1
				AND NOT EXISTS (SELECT FROM chain_halt h WHERE h.chain_id = c.chain_id AND h.lifted_at IS NULL)
			ON CONFLICT DO NOTHING RETURNING chain_id)
		SELECT c.block, c.block_hash, clock_timestamp() FROM chain_cursor c JOIN hour USING (chain_id)`, id).
		Scan(&b.Number, &hash, &b.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return chain.Block{}, false, nil
	}
	if err != nil {
		return chain.Block{}, false, fmt.Errorf("begin to compare balances: %w", err)
	}
	copy(b.Hash[:], hash)
	return b, true, nil
}

// Holdings implements deposit.GrowthStore. A sweep above the block has not left the balance of the block.
func (s Deposits) Holdings(
	ctx context.Context, token string, block uint64, from int64, limit int,
) ([]deposit.Holding, error) {
	rows, err := s.pool.Query(ctx, `
		WITH page AS (SELECT deposit_index, address FROM deposit_address WHERE deposit_index >= $3
			ORDER BY deposit_index LIMIT $4)
		SELECT p.deposit_index, p.address, greatest(0,
			coalesce((SELECT sum(amount) FROM transfer t WHERE t.deposit_index = p.deposit_index AND t.token = $1
				AND t.state NOT IN ('seen', 'dropped') AND t.block <= $2), 0)
			+ coalesce((SELECT sum(amount) FROM deposit_dust d WHERE d.deposit_index = p.deposit_index AND d.token = $1), 0)
			- coalesce((SELECT sum(w.amount) FROM sweep w JOIN signed_tx s ON s.hash = w.tx_hash
				JOIN call_end e ON (e.chain_id, e.sender, e.nonce) = (s.chain_id, s.sender, s.nonce)
				WHERE w.deposit_index = p.deposit_index AND w.token = $1 AND w.state = 'done' AND e.block <= $2), 0))::text
		FROM page p ORDER BY p.deposit_index`, token, block, from, limit)
	if err != nil {
		return nil, fmt.Errorf("read what should be at addresses: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h deposit.Holding, err error) {
		var address []byte
		var sum string
		if err = row.Scan(&h.Index, &address, &sum); err != nil {
			return h, err
		}
		copy(h.Address[:], address)
		h.Recorded, err = chain.ParseAmount(sum)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what should be at addresses: %w", err)
	}
	return list, nil
}

// Grew implements deposit.GrowthStore.
func (s Deposits) Grew(ctx context.Context, transfers []watch.Transfer) error {
	if len(transfers) == 0 {
		return nil
	}
	batch, added := &pgx.Batch{}, 0
	for _, t := range transfers {
		queueTransfer(batch, t, "final", &added)
	}
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("store coins that balances show: %w", err)
	}
	return nil
}
