package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/entries"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// The columns of an entry, and of a settled request as an entry.
const (
	entryColumns = `SELECT e.id, e.kind, e.business_id, e.memo, e.reverses, e.at FROM entry e `
	usageColumns = `SELECT s.request_id, 'usage', s.request_id::text, '', NULL::uuid, s.settled_at
		FROM usage_settlement s `
	// newestEntries and newestUsage have the page behind a place ($1, $2), of $3 rows.
	newestEntries = ` AND (e.at, e.id) < ($1, $2) ORDER BY e.at DESC, e.id DESC LIMIT $3`
	newestUsage   = ` AND (s.settled_at, s.request_id) < ($1, $2)
		ORDER BY s.settled_at DESC, s.request_id DESC LIMIT $3`

	// entriesByFact looks one business id up for each kind, because the index is by kind.
	entriesByFact = entryColumns + `WHERE e.kind = ANY (ARRAY(SELECT kind FROM entry_kind)) AND e.business_id = $4` +
		newestEntries
	usageByRequest = usageColumns + `WHERE s.day = $5 AND s.request_id = $6` + newestUsage
	entriesByTime  = entryColumns + `WHERE e.at >= $4 AND e.at < $5` + newestEntries
	// Usage settles within eight days of its request's day, and no clock is a day ahead.
	usageByTime = usageColumns + `WHERE s.settled_at >= $4 AND s.settled_at < $5
		AND s.day BETWEEN ($4::timestamptz AT TIME ZONE 'UTC')::date - 9
			AND ($5::timestamptz AT TIME ZONE 'UTC')::date + 1`
	// entriesByOwner reads the legs of one owner, which are few: usage has none here.
	entriesByOwner = entryColumns + `WHERE e.id IN (SELECT p.entry_id FROM posting p WHERE p.account_kind = $4
		AND p.owner_id = $5)`
	withinTime = ` AND e.at >= $6 AND e.at < $7`
	// usageOfProvider takes the page of each day and source from an index in their order, so that it reads no
	// more rows than that many pages have, however many requests the provider has served. The bounds of whole
	// rows are those of one provider and source. An equation would say the same, and then PostgreSQL may read
	// the requests of all providers by their time instead.
	usageOfProvider = `SELECT s.* FROM (
			SELECT d::date AS day FROM generate_series(($6::timestamptz AT TIME ZONE 'UTC')::date - 9,
				(least($7::timestamptz, $1) AT TIME ZONE 'UTC')::date + 1, interval '1 day') d
		) d
		CROSS JOIN unnest(CASE $4 WHEN 'l:provider:accrued' THEN ARRAY['payg']
			WHEN 'l:provider:plan_held' THEN ARRAY['plan'] WHEN 'l:vendor:payable' THEN ARRAY['payg', 'plan'] END)
			AS billed (source)
		CROSS JOIN LATERAL (` + usageColumns + `WHERE s.day = d.day
			AND (s.provider_id, s.source, s.settled_at) >= ($5, billed.source, $6)
			AND (s.provider_id, s.source, s.settled_at) <= ($5, billed.source, least($7::timestamptz, $1))
			AND s.vendor = ($4 = 'l:vendor:payable') AND s.payout > 0 AND s.settled_at < $7
			AND (s.settled_at, s.request_id) < ($1, $2)
			ORDER BY s.provider_id DESC, s.source DESC, s.settled_at DESC, s.request_id DESC LIMIT $3
		) AS s (request_id, kind, business_id, memo, reverses, settled_at)
		ORDER BY s.settled_at DESC, s.request_id DESC LIMIT $3`
	// usageOfConsumer finds an account's settled requests in its passbook, which is some seconds behind.
	usageOfConsumer = `SELECT l.ref, 'usage', l.ref::text, '', NULL::uuid, l.at FROM passbook_line l
		WHERE $4 = 'l:consumer:available' AND l.account_id = $5 AND l.kind = 'usage' AND l.amount <> 0
			AND l.at >= $6 AND l.at < $7 AND (l.at, l.ref) < ($1, $2) ORDER BY l.at DESC, l.ref DESC LIMIT $3`
)

// entriesOf returns the statement of a filter and its arguments beside the place and the limit.
func entriesOf(f entries.Filter) (parts []string, args []any) {
	switch {
	case !f.Request.IsZero():
		return []string{entriesByFact, usageByRequest},
			[]any{f.Request.String(), f.Request.Day(), [16]byte(f.Request)}
	case f.BusinessID != "":
		return []string{entriesByFact}, []any{f.BusinessID}
	case f.Account == "":
		return []string{entriesByTime, usageByTime + newestUsage}, []any{f.Since, f.Until}
	case !f.Timed():
		return []string{entriesByOwner + newestEntries}, []any{string(f.Account), f.Owner}
	}
	usage := usageOfProvider
	if f.Account == ledger.Available {
		usage = usageOfConsumer
	}
	return []string{entriesByOwner + withinTime + newestEntries, usage},
		[]any{string(f.Account), f.Owner, f.Since, f.Until}
}

// searchEntries returns the statement of a page.
func searchEntries(f entries.Filter, after entries.Place, limit int) (sql string, args []any) {
	if after == (entries.Place{}) {
		after = entries.Place{At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	parts, args := entriesOf(f)
	sql = `SELECT * FROM ((` + strings.Join(parts, `) UNION ALL (`) + `))
		AS found (id, kind, business_id, memo, reverses, at) ORDER BY at DESC, id DESC LIMIT $3`
	return sql, append([]any{after.At, [16]byte(after.ID), limit}, args...)
}

// Entries reads a page of entries with their legs, on one view of the data; see entries.Store.
func (s *Store) Entries(
	ctx context.Context, f entries.Filter, after entries.Place, limit int,
) (page []entries.Entry, err error) {
	sql, args := searchEntries(f, after, limit)
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return fmt.Errorf("select entries: %w", err)
		}
		if page, err = pgx.CollectRows(rows, entryOf); err != nil {
			return fmt.Errorf("select entries: %w", err)
		}
		return addLegs(ctx, tx, page)
	})
	return page, err
}

func entryOf(row pgx.CollectableRow) (e entries.Entry, err error) {
	var id [16]byte
	var reverses *[16]byte
	if err := row.Scan(&id, &e.Kind, &e.BusinessID, &e.Memo, &reverses, &e.At); err != nil {
		return entries.Entry{}, err
	}
	e.ID, e.At = id, e.At.UTC()
	if reverses != nil {
		e.Reverses = *reverses
	}
	return e, nil
}

// addLegs fills in the legs of a page: those of postings, and those that settled requests stand for.
func addLegs(ctx context.Context, tx pgx.Tx, page []entries.Entry) error {
	places := map[[16]byte]int{}
	var posted, settled [][16]byte
	var days []time.Time
	for i, e := range page {
		places[e.ID] = i
		if e.Kind != entries.Usage {
			posted = append(posted, e.ID)
			continue
		}
		settled, days = append(settled, e.ID), append(days, ids.RequestID(e.ID).Day())
	}
	slices.SortFunc(days, time.Time.Compare)
	rows, err := tx.Query(ctx, `SELECT entry_id, account_kind, owner_id, book, asset, amount FROM (
			SELECT entry_id, leg, account_kind, owner_id, book, asset, amount FROM posting
			WHERE entry_id = ANY ($1::uuid[])
			UNION ALL SELECT request_id, row_number() OVER (), account_kind, owner_id, book, 'usd', amount
			FROM usage_leg WHERE day = ANY ($2::date[]) AND request_id = ANY ($3::uuid[])) l ORDER BY entry_id, leg`,
		posted, slices.Compact(days), settled)
	if err != nil {
		return fmt.Errorf("select legs: %w", err)
	}
	var id [16]byte
	var owner *[16]byte
	var leg ledger.Posting
	_, err = pgx.ForEachRow(rows, []any{&id, &leg.Account.Kind, &owner, &leg.Account.Book, &leg.Asset,
		&leg.Amount}, func() error {
		leg.Account.Owner = [16]byte{}
		if owner != nil {
			leg.Account.Owner = *owner
		}
		e := &page[places[id]]
		e.Legs = append(e.Legs, leg)
		return nil
	})
	if err != nil {
		return fmt.Errorf("select legs: %w", err)
	}
	return nil
}

// sumsOfAll is what all accounts come to, but those of consumers, which their wallets know; what open slices
// hold is available. Of the other kinds it is what moved on sealed days, and what was recorded since.
const sumsOfAll = `
	WITH open AS (
		SELECT coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity') AS since
	), moved AS (
		SELECT account_kind, book, asset, moved AS amount FROM balance_snapshot WHERE account_kind = ANY($1)
		UNION ALL SELECT account_kind, book, asset, amount FROM ledger_leg
			WHERE at >= (SELECT since FROM open) AND account_kind = ANY($1)
	), wallets AS (
		SELECT coalesce(sum(posted), 0)::bigint AS posted,
			(coalesce(sum(held), 0) - (SELECT coalesce(sum(amount), 0) FROM slice WHERE state = 'open'))::bigint AS held
		FROM wallet
	)
	SELECT account_kind, book, asset, sum(amount)::bigint FROM moved GROUP BY account_kind, book, asset
	UNION ALL SELECT 'l:consumer:available', '', 'usd', posted - held FROM wallets
	UNION ALL SELECT 'l:consumer:held', '', 'usd', held FROM wallets`

// Balances reads what all accounts come to, on one view of the data; see entries.BalanceStore.
func (s *Store) Balances(ctx context.Context) (list []entries.Balance, at time.Time, err error) {
	var kinds []string
	for _, line := range ledger.Chart() {
		if line.Kind != ledger.Available && line.Kind != ledger.Held {
			kinds = append(kinds, string(line.Kind))
		}
	}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sumsOfAll, kinds)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b entries.Balance, err error) {
			err = row.Scan(&b.Account, &b.Book, &b.Asset, &b.Amount)
			return b, err
		})
		return err
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the trial balance: %w", err)
	}
	return list, at.UTC(), nil
}

// Rules are what Reconcile compares, with what was recorded within a span of time.
func Rules(recent time.Duration) []entries.Rule {
	rules := make([]entries.Rule, 0, len(reconciliations))
	for _, r := range reconciliations {
		scope := fmt.Sprintf("what was recorded within the last %v", recent)
		if r.wallets {
			scope = fmt.Sprintf("the next %d wallets at most, with their open holds", reconcileWallets)
		}
		rules = append(rules, entries.Rule{Name: r.name, Scope: scope})
	}
	return rules
}
