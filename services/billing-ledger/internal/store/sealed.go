package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// sealedParts list the changes of a day, one part after the other. $1 and $2 are the bounds
// of the day, and $3 to $5 the place after which a page begins: the time, the id and the
// leg. A part has no rows of other days, and none that changes when the day is sealed.
var sealedParts = []string{
	`SELECT settled_at, request_id, 0, source, request_id, NULL::uuid, '', '', provider_id,
		CASE source WHEN 'plan' THEN 'l:provider:plan_held' ELSE 'l:provider:accrued' END,
		CASE source WHEN 'plan' THEN to_char(day, 'YYYY-MM') ELSE '' END, payout
	FROM usage_settlement
	WHERE settled_at >= $1 AND settled_at < $2 AND payout > 0 AND NOT vendor AND (settled_at, request_id, 0) > ($3, $4, $5)
	ORDER BY settled_at, request_id LIMIT $6`,
	`SELECT e.at, e.id, p.leg, CASE WHEN e.kind IN ('request_refund', 'reversal') THEN e.kind ELSE 'entry' END,
		CASE WHEN coalesce(o.kind, e.kind) IN ('request_refund', 'orphan_work')
			THEN coalesce(o.business_id, e.business_id)::uuid END,
		e.id, e.kind, e.business_id, p.owner_id, p.account_kind, p.book, p.amount
	FROM entry e JOIN posting p ON p.entry_id = e.id LEFT JOIN entry o ON o.id = e.reverses
	WHERE e.at >= $1 AND e.at < $2 AND e.kind <> 'orphan_work' AND p.asset = 'usd'
		AND p.account_kind IN ('l:provider:accrued', 'l:provider:plan_held', 'l:provider:payable',
			'l:provider:payout_in_flight', 'a:provider_receivable')
		AND (e.at, e.id, p.leg) > ($3, $4, $5)
	ORDER BY e.at, e.id, p.leg LIMIT $6`,
	`SELECT held_at, request_id, 0, 'held', request_id, NULL::uuid, '', '', provider_id,
		CASE book WHEN '' THEN 'l:provider:accrued' ELSE 'l:provider:plan_held' END, book, payout
	FROM held_earning WHERE held_at >= $1 AND held_at < $2 AND (held_at, request_id, 0) > ($3, $4, $5)
	ORDER BY held_at, request_id LIMIT $6`,
	`SELECT ended_at, request_id, 0, ended_as, request_id, NULL::uuid, '', '', provider_id,
		CASE book WHEN '' THEN 'l:provider:accrued' ELSE 'l:provider:plan_held' END, book, payout
	FROM held_earning WHERE ended_at >= $1 AND ended_at < $2 AND (ended_at, request_id, 0) > ($3, $4, $5)
	ORDER BY ended_at, request_id LIMIT $6`,
}

// SealedChanges lists what changed the earnings of providers on a sealed day; see
// earning.SealedStore.
func (s *Store) SealedChanges(
	ctx context.Context, day time.Time, after earning.ChangeCursor, limit int,
) ([]earning.Change, []byte, error) {
	root, err := s.sealOf(ctx, day)
	if err != nil {
		return nil, nil, err
	}
	var all []earning.Change
	for part := after.Part; part < len(sealedParts) && len(all) < limit; part++ {
		if part != after.Part {
			after = earning.ChangeCursor{At: day}
		}
		rows, err := s.pool.Query(ctx, sealedParts[part], day, day.AddDate(0, 0, 1), after.At, after.ID, after.Leg,
			limit-len(all))
		if err != nil {
			return nil, nil, fmt.Errorf("list a sealed day: %w", err)
		}
		list, err := pgx.CollectRows(rows, scanChange)
		if err != nil {
			return nil, nil, fmt.Errorf("list a sealed day: %w", err)
		}
		for i := range list {
			list[i].Part = part
		}
		all = append(all, list...)
	}
	return all, root, nil
}

func scanChange(row pgx.CollectableRow) (earning.Change, error) {
	var c earning.Change
	var kind, entryKind, account string
	var request, entry *[16]byte
	var provider [16]byte
	var amount int64
	err := row.Scan(&c.At, &c.ID, &c.Leg, &kind, &request, &entry, &entryKind, &c.BusinessID, &provider, &account,
		&c.Month, &amount)
	c.At, c.Kind, c.Provider = c.At.UTC(), earning.ChangeKind(kind), provider
	c.EntryKind, c.Account, c.Amount = ledger.EntryKind(entryKind), ledger.AccountKind(account), nano(amount)
	if request != nil {
		c.Request = *request
	}
	if entry != nil {
		c.Entry = *entry
	}
	return c, err
}

// sealOf returns the root of a day's seal.
func (s *Store) sealOf(ctx context.Context, day time.Time) ([]byte, error) {
	var root []byte
	err := s.pool.QueryRow(ctx, `SELECT root FROM seal WHERE day = $1`, day).Scan(&root)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, earning.ErrDayOpen
	case err != nil:
		return nil, fmt.Errorf("read a seal: %w", err)
	}
	return root, nil
}

// SealedBalances lists the accounts of providers that moved on a sealed day; see
// earning.SealedStore.
func (s *Store) SealedBalances(
	ctx context.Context, day time.Time, after earning.BalanceCursor, limit int,
) ([]earning.SealedBalance, error) {
	if _, err := s.sealOf(ctx, day); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT account_kind, owner_id, book, moved, balance FROM balance_snapshot
		WHERE day = $1 AND asset = 'usd' AND (account_kind LIKE 'l:provider:%' OR account_kind = 'a:provider_receivable')
			AND (account_kind, owner_id, book) > ($2, $3, $4)
		ORDER BY account_kind, owner_id, book LIMIT $5`,
		day, string(after.Account), [16]byte(after.Provider), after.Month, limit)
	if err != nil {
		return nil, fmt.Errorf("list the balances of a sealed day: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b earning.SealedBalance, err error) {
		var account string
		var provider [16]byte
		err = row.Scan(&account, &provider, &b.Month, &b.Moved, &b.Balance)
		b.Account, b.Provider = ledger.AccountKind(account), ids.ProviderID(provider)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the balances of a sealed day: %w", err)
	}
	return list, nil
}
