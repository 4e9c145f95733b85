package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/reserve"
)

// Senders implements reserve.Rows.
func (s Reserves) Senders(ctx context.Context, id chain.ID) ([]chain.Address, error) {
	rows, err := s.pool.Query(ctx, `SELECT address FROM sender WHERE chain_id = $1 ORDER BY address`, id)
	if err != nil {
		return nil, fmt.Errorf("read the senders of chain %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a chain.Address, err error) {
		var raw []byte
		err = row.Scan(&raw)
		copy(a[:], raw)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the senders of chain %s: %w", id, err)
	}
	return list, nil
}

// Unswept implements reserve.Rows.
func (s Reserves) Unswept(ctx context.Context, token string, from int64, limit int) ([]reserve.Place, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT deposit_index, (SELECT a.address FROM deposit_address a WHERE a.deposit_index = b.deposit_index)
		FROM deposit_balance b WHERE token = $1 AND deposit_index >= $2 AND posted > swept
		ORDER BY deposit_index LIMIT $3`, token, from, limit)
	if err != nil {
		return nil, fmt.Errorf("read the addresses with %s: %w", token, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p reserve.Place, err error) {
		var raw []byte
		err = row.Scan(&p.Index, &raw)
		copy(p.Address[:], raw)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the addresses with %s: %w", token, err)
	}
	return list, nil
}

// Leaving implements reserve.Rows. A transaction that is known to be reverted or cancelled moved nothing.
func (s Reserves) Leaving(ctx context.Context, id chain.ID) ([]reserve.Leaving, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT c.sender, c.nonce, p.amount FROM payout p
		JOIN chain_call c ON c.purpose = 'payout' AND c.ref = p.payout_id::text
		LEFT JOIN call_end e ON (e.chain_id, e.sender, e.nonce) = (c.chain_id, c.sender, c.nonce)
		WHERE p.chain_id = $1 AND p.state IN ('signing', 'submitted') AND coalesce(e.outcome, 'succeeded') = 'succeeded'`, id)
	if err != nil {
		return nil, fmt.Errorf("read what leaves chain %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l reserve.Leaving, err error) {
		var raw []byte
		err = row.Scan(&raw, &l.Nonce, &l.Amount)
		copy(l.Sender[:], raw)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what leaves chain %s: %w", id, err)
	}
	return list, nil
}

// Gas implements reserve.Rows. What a cost has below a unit of the books is never posted, and counts here for ever.
func (s Reserves) Gas(ctx context.Context, id chain.ID) (chain.Amount, error) {
	var sum chain.Amount
	err := s.pool.QueryRow(ctx, `
		SELECT coalesce((SELECT wei FROM chain_unbooked WHERE chain_id = $1), 0)`, id).Scan(&sum)
	if err != nil {
		return chain.Amount{}, fmt.Errorf("read the gas that chain %s took: %w", id, err)
	}
	return sum, nil
}

// Staked implements reserve.Rows, on one view of the data.
func (s Reserves) Staked(ctx context.Context, id chain.ID) (reserve.Staked, error) {
	return readStaked(ctx, s.pool, id)
}

func readStaked(ctx context.Context, db querier, id chain.ID) (out reserve.Staked, err error) {
	rows, err := db.Query(ctx, `
		SELECT c.block, c.block_hash, (SELECT coalesce(sum(free + escrow), 0) FROM position WHERE chain_id = $1
			AND (free > 0 OR escrow > 0)),
			EXISTS (SELECT FROM chain_event e WHERE e.chain_id = $1 AND e.topics[1] = ANY($2::bytea[]) AND e.gone_at IS NULL
				AND e.seq > coalesce((SELECT number FROM position_cursor WHERE chain_id = $1), 0)
				AND NOT EXISTS (SELECT FROM position_event p WHERE p.chain_id = $1 AND p.event = e.seq))
			OR EXISTS (SELECT FROM chain_event e JOIN position_event p ON p.chain_id = e.chain_id AND p.event = e.seq
				WHERE e.chain_id = $1 AND e.gone_at IS NOT NULL AND NOT p.gone)
		FROM chain_cursor c WHERE c.chain_id = $1`, id, contract.Topics())
	if err != nil {
		return reserve.Staked{}, fmt.Errorf("read the positions of chain %s: %w", id, err)
	}
	out, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (s reserve.Staked, err error) {
		var hash []byte
		err = row.Scan(&s.Block.Number, &hash, &s.Sum, &s.Behind)
		copy(s.Block.Hash[:], hash)
		return s, err
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return reserve.Staked{}, fmt.Errorf("read the positions of chain %s: %w", id, err)
	}
	return out, nil
}
