package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// Adoptions keeps what is taken into a database that lost commits; it implements adopt.Store.
type Adoptions struct{ *Store }

// Senders implements adopt.Store.
func (s Adoptions) Senders(ctx context.Context, id chain.ID) ([]adopt.Sender, error) {
	rows, err := s.pool.Query(ctx, `SELECT key, address, next FROM sender WHERE chain_id = $1 ORDER BY address`, id)
	if err != nil {
		return nil, fmt.Errorf("list senders: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one adopt.Sender, err error) {
		var address []byte
		err = row.Scan(&one.Key, &address, &one.Next)
		copy(one.Address[:], address)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("list senders: %w", err)
	}
	return list, nil
}

// Waiting implements adopt.Store.
func (s Adoptions) Waiting(ctx context.Context, id chain.ID, limit int) ([]sending.Status, error) {
	return Sending(s).Waiting(ctx, id, limit)
}

// EndBefore implements adopt.Store. Calls that were sent later may have ended before the call of a lower nonce whose
// transaction was lost, so the highest block of all ends would be too late.
func (s Adoptions) EndBefore(ctx context.Context, p sending.Place) (block uint64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce((SELECT block FROM call_end WHERE chain_id = $1 AND sender = $2
		AND nonce < $3 ORDER BY nonce DESC LIMIT 1), 0)`, p.Chain, p.Sender[:], p.Nonce).Scan(&block)
	if err != nil {
		return 0, fmt.Errorf("read the last end of a sender: %w", err)
	}
	return block, nil
}

// Rows implements adopt.Store.
func (s Adoptions) Rows(
	ctx context.Context, of []payout.ID,
) (map[payout.ID]payout.Payout, map[payout.ID]bool, error) {
	list, names := make([][16]byte, len(of)), make([]string, len(of))
	for i, id := range of {
		list[i], names[i] = id, id.String()
	}
	rows, err := s.pool.Query(ctx, `SELECT `+payoutColumns+` FROM payout p WHERE p.payout_id = ANY($1::uuid[])`, list)
	if err != nil {
		return nil, nil, fmt.Errorf("read payouts: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanPayout)
	if err != nil {
		return nil, nil, fmt.Errorf("read payouts: %w", err)
	}
	known, called := map[payout.ID]payout.Payout{}, map[payout.ID]bool{}
	for _, p := range found {
		known[p.ID] = p
	}
	rows, err = s.pool.Query(ctx, `SELECT ref::uuid FROM chain_call WHERE purpose = $1 AND ref = ANY($2)`, payout.Purpose,
		names)
	if err != nil {
		return nil, nil, fmt.Errorf("read calls of payouts: %w", err)
	}
	var id payout.ID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { called[id] = true; return nil }); err != nil {
		return nil, nil, fmt.Errorf("read calls of payouts: %w", err)
	}
	return known, called, nil
}

// OpenOf implements adopt.Store.
func (s Adoptions) OpenOf(ctx context.Context, of []ids.ProviderID) (map[ids.ProviderID]payout.ID, error) {
	list := make([][16]byte, len(of))
	for i, id := range of {
		list[i] = id
	}
	rows, err := s.pool.Query(ctx, `SELECT provider_id, payout_id FROM payout
		WHERE provider_id = ANY($1::uuid[]) AND state IN ('requested', 'approved', 'signing', 'submitted')`, list)
	if err != nil {
		return nil, fmt.Errorf("read open payouts of providers: %w", err)
	}
	open := map[ids.ProviderID]payout.ID{}
	var provider ids.ProviderID
	var id payout.ID
	_, err = pgx.ForEachRow(rows, []any{&provider, &id}, func() error {
		open[provider] = id
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read open payouts of providers: %w", err)
	}
	return open, nil
}

// Deposits implements adopt.Store.
func (s Adoptions) Deposits(
	ctx context.Context, id chain.ID, of []chain.Address,
) (map[chain.Address]uint32, map[chain.Address]adopt.OpenSweep, error) {
	list := make([][]byte, len(of))
	for i := range of {
		list[i] = of[i][:]
	}
	rows, err := s.pool.Query(ctx, `SELECT a.address, a.deposit_index, w.sweep_id::text FROM deposit_address a
		LEFT JOIN sweep w ON w.deposit_index = a.deposit_index AND w.chain_id = $1 AND w.token = $2
			AND w.state = 'planned'
		WHERE a.address = ANY($3)`, id, id.Token(id.PaysOut()), list)
	if err != nil {
		return nil, nil, fmt.Errorf("read deposit addresses: %w", err)
	}
	indexes, open := map[chain.Address]uint32{}, map[chain.Address]adopt.OpenSweep{}
	var raw []byte
	var index int64
	var sweep *string
	_, err = pgx.ForEachRow(rows, []any{&raw, &index, &sweep}, func() error {
		address := chain.Address(raw)
		indexes[address] = uint32(index)
		if sweep != nil {
			open[address] = adopt.OpenSweep{ID: *sweep, Index: uint32(index)}
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read deposit addresses: %w", err)
	}
	return indexes, open, nil
}

// Unexplained implements adopt.Store.
func (s Adoptions) Unexplained(ctx context.Context) (unknown bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM adopted_call a
		JOIN sender s ON s.chain_id = a.chain_id AND s.address = a.sender
		WHERE a.what = 'unknown' AND s.key = 'payout')`).Scan(&unknown)
	if err != nil {
		return false, fmt.Errorf("read unexplained calls: %w", err)
	}
	return unknown, nil
}

// Halted implements adopt.Store.
func (s Adoptions) Halted(ctx context.Context, id chain.ID) (halted bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM chain_halt WHERE chain_id = $1 AND lifted_at IS NULL)`, id).
		Scan(&halted)
	if err != nil {
		return false, fmt.Errorf("read the halt of a chain: %w", err)
	}
	return halted, nil
}

// Now implements adopt.Store.
func (s Adoptions) Now(ctx context.Context) (time.Time, error) { return Payouts(s).Now(ctx) }
