package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/record"
)

// Senders implements record.Store.
func (s *Store) Senders(
	ctx context.Context, id chain.ID, after chain.Address, limit int,
) ([]record.Sender, error) {
	rows, err := s.pool.Query(ctx, `SELECT sender, min(key), max(nonce) FROM signed_nonce
		WHERE chain_id = $1 AND sender > $2 GROUP BY sender ORDER BY sender LIMIT $3`, int64(id), after[:], limit)
	if err != nil {
		return nil, fmt.Errorf("list senders: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one record.Sender, err error) {
		var address []byte
		var key string
		var highest int64
		err = row.Scan(&address, &key, &highest)
		copy(one.Address[:], address)
		one.Key, one.Highest = policy.Key(key), uint64(highest)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("list senders: %w", err)
	}
	return list, nil
}

// A nonce has at most two rows: its content and its cancel.
const signed = `
SELECT nonce, (array_agg(call_hash) FILTER (WHERE NOT cancel))[1], bool_or(cancel),
	(array_agg(asset) FILTER (WHERE NOT cancel))[1],
	coalesce(sum(amount) FILTER (WHERE NOT cancel), 0)::text
FROM signed_nonce WHERE chain_id = $1 AND sender = $2 AND nonce >= $3 GROUP BY nonce ORDER BY nonce LIMIT $4`

// Signed implements record.Store.
func (s *Store) Signed(
	ctx context.Context, id chain.ID, sender chain.Address, from uint64, limit int,
) ([]record.Signed, error) {
	rows, err := s.pool.Query(ctx, signed, int64(id), sender[:], int64(from), limit)
	if err != nil {
		return nil, fmt.Errorf("list signed nonces: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanSigned)
	if err != nil {
		return nil, fmt.Errorf("list signed nonces: %w", err)
	}
	return list, nil
}

func scanSigned(row pgx.CollectableRow) (one record.Signed, err error) {
	var nonce int64
	var content, asset []byte
	var amount string
	if err := row.Scan(&nonce, &content, &one.Cancelled, &asset, &amount); err != nil {
		return one, err
	}
	one.Nonce = uint64(nonce)
	copy(one.Content[:], content)
	copy(one.Asset[:], asset)
	one.Amount, err = chain.ParseAmount(amount)
	return one, err
}
