package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/receipt"
)

// Owner finds whose a request is, by its hold, or by its settled line once its day is cleared; see
// receipt.OperatorStore.
func (s *Store) Owner(ctx context.Context, request ids.RequestID) (receipt.Found, bool, error) {
	var f receipt.Found
	var account, key [16]byte
	err := s.pool.QueryRow(ctx, `SELECT o.account_id, o.key_id, k.prefix
		FROM (SELECT account_id, key_id FROM hold WHERE request_id = $1
			UNION ALL SELECT account_id, key_id FROM usage_settlement WHERE day = $2 AND request_id = $1) o
		JOIN consumer_key k ON k.id = o.key_id LIMIT 1`, [16]byte(request), request.Day()).
		Scan(&account, &key, &f.KeyPrefix)
	if errors.Is(err, pgx.ErrNoRows) {
		return receipt.Found{}, false, nil
	}
	if err != nil {
		return receipt.Found{}, false, fmt.Errorf("select the owner of a request: %w", err)
	}
	f.Account, f.Key = account, key
	return f, true, nil
}

// RefundOfRequest finds what was given back of a request; see receipt.OperatorStore.
func (s *Store) RefundOfRequest(ctx context.Context, request ids.RequestID) (*receipt.Refund, error) {
	r := &receipt.Refund{}
	var id [16]byte
	err := s.pool.QueryRow(ctx, `SELECT e.id, e.kind, e.memo, e.at,
			coalesce((SELECT sum(p.amount) FROM posting p WHERE p.entry_id = e.id
				AND p.account_kind = 'l:consumer:available' AND p.asset = 'usd'), 0)::bigint
		FROM entry e WHERE e.business_id = $1 AND e.kind IN ('request_refund', 'goodwill_refund', 'broken_answer')`,
		request.String()).Scan(&id, &r.Kind, &r.Memo, &r.At, &r.Amount)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("select the refund of a request: %w", err)
	}
	r.Entry = id
	return r, nil
}
