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

// Holdings implements deposit.GrowthStore. What arrived above the block is not in the balance of the block, and a sweep
// above it has not left that balance.
func (s Deposits) Holdings(
	ctx context.Context, token string, block uint64, from int64, limit int,
) ([]deposit.Holding, error) {
	rows, err := s.pool.Query(ctx, `
		WITH page AS (SELECT deposit_index, address FROM deposit_address WHERE deposit_index >= $3
			ORDER BY deposit_index LIMIT $4),
		above AS MATERIALIZED (
			SELECT deposit_index, -amount AS amount FROM transfer WHERE chain_id = split_part($1, ':', 1)::bigint
				AND token = $1 AND block > $2 AND state NOT IN ('seen', 'dropped')
			UNION ALL SELECT w.deposit_index, w.amount FROM call_end e JOIN sweep w ON w.tx_hash = e.hash
				WHERE e.chain_id = split_part($1, ':', 1)::bigint AND e.block > $2 AND w.token = $1 AND w.state = 'done')
		SELECT p.deposit_index, p.address, greatest(0, coalesce(b.arrived + b.dust - b.swept, 0)
			+ coalesce((SELECT sum(a.amount) FROM above a WHERE a.deposit_index = p.deposit_index), 0))::text
		FROM page p LEFT JOIN deposit_balance b ON b.deposit_index = p.deposit_index AND b.token = $1
		ORDER BY p.deposit_index`, token, block, from, limit)
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
