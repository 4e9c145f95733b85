package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
)

// Bounds of one reconciliation: the wallets that it compares, and the drifts of each
// invariant that it names.
const (
	reconcileWallets = 2000
	reconcileNamed   = 10
)

// Place is where the next reconciliation begins; the zero value is the first wallet.
type Place [16]byte

// Drift is one row that breaks an invariant.
type Drift struct{ Invariant, Text string }

// reconciliations cost the same however large the ledger is: each looks at open rows, at
// the next wallets ($1, $2), or at rows that were recorded within $3.
var reconciliations = []struct {
	name    string
	wallets bool // whether it looks at the next wallets
	drift   string
}{
	{
		"wallet.held is the sum of open holds and slices", true,
		`SELECT format('account %s: held %s, open holds %s, slices %s', w.account_id, w.held, coalesce(h.amount, 0),
			coalesce(s.amount, 0))
		FROM (SELECT account_id, held FROM wallet WHERE account_id > $1 ORDER BY account_id LIMIT $2) w
		LEFT JOIN (SELECT account_id, sum(amount) AS amount FROM hold WHERE state = 'open'
			GROUP BY account_id) h USING (account_id)
		LEFT JOIN (SELECT account_id, sum(amount) AS amount FROM slice GROUP BY account_id) s USING (account_id)
		WHERE w.held <> coalesce(h.amount, 0) + coalesce(s.amount, 0) AND $3::interval IS NOT NULL`,
	}, {
		"every settled request has its closed hold", false,
		`SELECT format('request %s: source %s, and its hold is %s', s.request_id, s.source, coalesce(h.state, 'missing'))
		FROM usage_settlement s LEFT JOIN hold h USING (request_id)
		WHERE s.settled_at > now() - $3::interval AND s.day >= (now() - $3::interval)::date - 8
			AND (h.state IS NULL AND s.request_id >= (SELECT kept_from())
				OR (s.source = 'orphan') <> (h.state IN ('released', 'expired'))
				OR s.charged + s.shortfall + s.discount <> CASE s.source WHEN 'payg' THEN s.list_price ELSE 0 END
				OR s.payout NOT BETWEEN 0 AND s.list_price)
			AND $1::uuid IS NOT NULL AND $2::integer > 0`,
	}, {
		"every entry balances", false,
		`SELECT format('entry %s: %s legs, sum %s %s', e.id, count(p.leg), coalesce(sum(p.amount), 0), p.asset)
		FROM entry e LEFT JOIN posting p ON p.entry_id = e.id
		WHERE e.at > now() - $3::interval AND $1::uuid IS NOT NULL AND $2::integer > 0
		GROUP BY e.id, p.asset HAVING count(p.leg) < 2 OR coalesce(sum(p.amount), 0) <> 0`,
	},
}

// Reconcile compares a part of the ledger with itself, on one view of its data: the
// wallets after a place, and the rows that were recorded lately. It returns the place
// after those wallets. Over many calls every wallet has its turn.
func (s *Store) Reconcile(ctx context.Context, from Place, recent time.Duration) (Place, []Drift, error) {
	var next Place
	var drifts []Drift
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		next, drifts = Place{}, nil
		for _, r := range reconciliations {
			rows, err := tx.Query(ctx, r.drift+` LIMIT `+fmt.Sprint(reconcileNamed), [16]byte(from), reconcileWallets, recent)
			if err != nil {
				return fmt.Errorf("compare %q: %w", r.name, err)
			}
			var text string
			if _, err := pgx.ForEachRow(rows, []any{&text}, func() error {
				drifts = append(drifts, Drift{r.name, text})
				return nil
			}); err != nil {
				return fmt.Errorf("compare %q: %w", r.name, err)
			}
		}
		var last *[16]byte
		if err := tx.QueryRow(ctx, `SELECT max(account_id::text)::uuid FROM (SELECT account_id FROM wallet
			WHERE account_id > $1 ORDER BY account_id LIMIT $2) w HAVING count(*) = $2`, [16]byte(from),
			reconcileWallets).Scan(&last); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("find the next wallets: %w", err)
		}
		if last != nil {
			next = *last
		}
		return nil
	})
	return next, drifts, err
}
