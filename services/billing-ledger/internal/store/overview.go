package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/usage"
	"svc.internal/services/billing-ledger/internal/user"
)

const (
	listedColumns = `SELECT a.id, a.name, a.state, a.created_at, w.posted, ` + heldByRequests + `, coalesce(u.email, '')
		FROM account a JOIN wallet w ON w.account_id = a.id `
	newestFirst = ` AND ($2 = '' OR a.state = $2) ORDER BY a.id DESC LIMIT $3`
	// findByEmail compares in the order of the index: bytes, none above ~.
	findByEmail = listedColumns + `JOIN app_user u ON u.account_id = a.id
		WHERE u.email >= $4 AND u.email < $4 || chr(127) AND u.email > $1 AND ($2 = '' OR a.state = $2)
		ORDER BY u.email LIMIT $3`
	findByKey = listedColumns + `LEFT JOIN app_user u ON u.account_id = a.id
		WHERE a.id IN (SELECT account_id FROM consumer_key WHERE prefix = $4
			UNION SELECT account_id FROM consumer_key WHERE old_prefix = $4) AND a.id < $1::uuid` + newestFirst
	// findByWallet reads one page of an address's marks of accounts, from an index in the page's
	// order, because an exchange pays very many accounts from one address.
	findByWallet = listedColumns + `LEFT JOIN app_user u ON u.account_id = a.id
		WHERE a.id < $1::uuid AND a.id IN ((SELECT DISTINCT m.account_id FROM account_mark m
				JOIN account b ON b.id = m.account_id WHERE m.evidence = $4 AND m.cause IN ('wallet', 'deposit_source')
					AND m.account_id < $1::uuid AND ($2 = '' OR b.state = $2)
				ORDER BY m.account_id DESC LIMIT $3)
			UNION SELECT o.account_id FROM provider_mark p JOIN app_user o ON o.provider_id = p.provider_id
				WHERE p.evidence = $4 AND p.cause IN ('wallet', 'payout_address'))` + newestFirst
	// walletIs says what an address is to accounts.
	walletIs = `SELECT account_id, CASE cause WHEN 'wallet' THEN 'proven' ELSE 'deposit' END AS wallet_is
		FROM account_mark
		WHERE evidence = $1 AND cause IN ('wallet', 'deposit_source') AND account_id = ANY ($2::uuid[])
		UNION SELECT o.account_id, CASE p.cause WHEN 'wallet' THEN 'provider_owner' ELSE 'payout' END
		FROM provider_mark p JOIN app_user o ON o.provider_id = p.provider_id
		WHERE p.evidence = $1 AND p.cause IN ('wallet', 'payout_address') AND o.account_id = ANY ($2::uuid[])
		ORDER BY account_id, wallet_is`
	findAny = listedColumns + `LEFT JOIN app_user u ON u.account_id = a.id WHERE a.id < $1::uuid` + newestFirst
	// findFrozen is findAny for the accounts that have an index of their own.
	findFrozen = listedColumns + `LEFT JOIN app_user u ON u.account_id = a.id
		WHERE a.id < $1::uuid AND a.state = 'frozen'` + newestFirst
)

// lastID is behind all ids.
const lastID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// searchOf returns the statement of a filter with its arguments. evidence is the digest of the
// filter's wallet.
func searchOf(f account.Filter, evidence []byte, after string, limit int) (sql string, args []any) {
	if f.EmailPrefix != "" {
		return findByEmail, []any{after, string(f.State), limit, f.EmailPrefix}
	}
	if after == "" {
		after = lastID
	}
	args = []any{after, string(f.State), limit}
	switch {
	case f.KeyPrefix != "":
		return findByKey, append(args, f.KeyPrefix)
	case f.Wallet != "":
		return findByWallet, append(args, evidence)
	case f.State == account.Frozen:
		return findFrozen, args
	}
	return findAny, args
}

// FindAccounts returns a page of accounts; see account.SearchStore.
func (s *Store) FindAccounts(
	ctx context.Context, f account.Filter, after string, limit int,
) ([]account.Listed, error) {
	var evidence []byte
	if f.Wallet != "" {
		var err error
		if evidence, err = digestOf(ctx, s.pool, user.Identity{Issuer: user.Wallet, Subject: f.Wallet}); err != nil {
			return nil, err
		}
	}
	sql, args := searchOf(f, evidence, after, limit)
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("select accounts: %w", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l account.Listed, err error) {
		var id [16]byte
		err = row.Scan(&id, &l.Name, &l.State, &l.CreatedAt, &l.Balance, &l.Held, &l.Email)
		l.ID = id
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("select accounts: %w", err)
	}
	if evidence != nil {
		if err := s.sayWhatWalletIs(ctx, evidence, page); err != nil {
			return nil, fmt.Errorf("select marks of accounts: %w", err)
		}
	}
	return page, nil
}

// sayWhatWalletIs fills in what the wallet of a digest is to the accounts of a page.
func (s *Store) sayWhatWalletIs(ctx context.Context, evidence []byte, page []account.Listed) error {
	places, accounts := map[[16]byte]int{}, make([][16]byte, len(page))
	for i, l := range page {
		places[l.ID], accounts[i] = i, l.ID
	}
	rows, err := s.pool.Query(ctx, walletIs, evidence, accounts)
	if err != nil {
		return err
	}
	var id [16]byte
	var is account.WalletIs
	_, err = pgx.ForEachRow(rows, []any{&id, &is}, func() error {
		l := &page[places[id]]
		l.WalletIs = append(l.WalletIs, is)
		return nil
	})
	return err
}

// AccountDetails reads what operators see of an account; see account.SearchStore.
func (s *Store) AccountDetails(ctx context.Context, id ids.AccountID, limit int) (d account.Details, err error) {
	if d.Limits, err = s.SpendLimits(ctx, id); err != nil {
		return account.Details{}, err
	}
	var provider *[16]byte
	if err := s.pool.QueryRow(ctx, `SELECT coalesce(max(email), ''),
			(SELECT provider_id FROM app_user WHERE account_id = $1)
		FROM app_user WHERE account_id = $1`, [16]byte(id)).Scan(&d.Email, &provider); err != nil {
		return account.Details{}, fmt.Errorf("select user: %w", err)
	}
	if provider != nil {
		d.Provider = *provider
	}
	rows, err := s.pool.Query(ctx, `SELECT e.id, e.kind, p.amount, e.memo, e.at
		FROM posting p JOIN entry e ON e.id = p.entry_id
		WHERE p.account_kind = 'l:consumer:available' AND p.owner_id = $1 ORDER BY e.at DESC, e.id DESC LIMIT $2`,
		[16]byte(id), limit)
	if err != nil {
		return account.Details{}, fmt.Errorf("select entries: %w", err)
	}
	d.Entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e account.Entry, err error) {
		var id [16]byte
		err = row.Scan(&id, &e.Kind, &e.Amount, &e.Memo, &e.At)
		e.ID = id
		return e, err
	})
	if err != nil {
		return account.Details{}, fmt.Errorf("select entries: %w", err)
	}
	rows, err = s.pool.Query(ctx, `SELECT actor, action, detail::text, at FROM operator_action WHERE subject = $1
		ORDER BY id DESC LIMIT $2`, [16]byte(id), limit)
	if err != nil {
		return account.Details{}, fmt.Errorf("select actions: %w", err)
	}
	d.Actions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a account.Action, err error) {
		err = row.Scan(&a.Actor, &a.Action, &a.Detail, &a.At)
		return a, err
	})
	if err != nil {
		return account.Details{}, fmt.Errorf("select actions: %w", err)
	}
	return d, nil
}

// RefundOf refunds a request of an account, with the operator's action; see
// account.SearchStore. A request of another account is usage.ErrNothingCharged.
func (s *Store) RefundOf(ctx context.Context, r account.Refund) (ids.EntryID, money.NanoUSD, error) {
	var amount money.NanoUSD
	posted, err := s.refund(ctx, r.Entry, r.Request, r.Cause, r.Note, refundHooks{
		allow: func(charge usage.Refundable) error {
			amount = charge.Charged
			if charge.Account != r.Account {
				return usage.ErrNothingCharged
			}
			return nil
		},
		also: func(tx pgx.Tx) error {
			return addAct(ctx, tx, refundedRequest, [16]byte(r.Account), details{"request_id": r.Request.String(),
				"entry_id": r.Entry.String(), "cause": string(r.Cause), "amount_usd": amount.String(), "note": r.Note})
		},
	})
	if err != nil {
		return ids.EntryID{}, 0, err
	}
	return posted, amount, nil
}
