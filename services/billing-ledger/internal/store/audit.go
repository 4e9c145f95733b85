package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/usage"
)

// auditChecks read little, or only what is open.
var auditChecks = []check{
	{
		"no wallet is overdrawn",
		`SELECT count(*) FROM wallet`,
		`SELECT format('account %s: posted %s, held %s', account_id, posted, held) FROM wallet
		WHERE posted < 0 OR held < 0 OR held > posted`,
	}, {
		"wallet.held is the sum of open holds and slices",
		`SELECT count(*) FROM wallet`,
		`SELECT format('account %s: held %s, open holds %s, slices %s', account_id, w.held, h.amount, s.amount)
		FROM wallet w FULL JOIN (SELECT account_id, sum(amount) AS amount FROM hold
			WHERE state = 'open' GROUP BY account_id) h
			USING (account_id)
		FULL JOIN (SELECT account_id, sum(amount) AS amount FROM slice GROUP BY account_id) s USING (account_id)
		WHERE coalesce(w.held, 0) <> coalesce(h.amount, 0) + coalesce(s.amount, 0)`,
	}, {
		"the slice of a dead owner is stranded and reclaimed",
		`SELECT count(*) FROM slice`,
		`SELECT format('account %s: the %s slice %s with %s was over at %s', account_id, state, epoch, amount,
			coalesce(reclaim_at, alive_until))
		FROM slice WHERE coalesce(reclaim_at, alive_until) < now() - interval '1 hour'`,
	}, {
		"orphan work has its entry, and no entry is without it",
		`SELECT count(*) FROM entry WHERE kind = 'orphan_work'`,
		`SELECT format('request %s: paid %s, posted %s', request_id, s.payout, e.amount)
		FROM (SELECT request_id::text, provider_id, payout, vendor FROM usage_settlement
			WHERE source = 'orphan' AND payout > 0) s
		FULL JOIN (SELECT e.business_id AS request_id, p.owner_id, p.amount, p.account_kind = 'l:vendor:payable' AS vendor
			FROM entry e JOIN posting p ON p.entry_id = e.id AND p.amount > 0 WHERE e.kind = 'orphan_work') e
			USING (request_id)
		WHERE (s.payout, s.provider_id, s.vendor) IS DISTINCT FROM (e.amount, e.owner_id, e.vendor)`,
	}, {
		"who served as a vendor is one, and no vendor accrues",
		`SELECT count(*) FROM vendor`,
		`SELECT format('request %s: provider %s, of a vendor %s', request_id, provider_id, s.vendor)
		FROM usage_settlement s LEFT JOIN vendor v ON v.vendor_id = s.provider_id
		-- Another transaction may have settled the first requests of a vendor at the same time.
		WHERE s.vendor AND v.vendor_id IS NULL OR NOT s.vendor AND s.settled_at > v.first_at + interval '1 hour'`,
	}, {
		"every entry balances",
		`SELECT count(*) FROM entry`,
		`SELECT format('entry %s: %s legs, sum %s %s', e.id, count(p.leg), coalesce(sum(p.amount), 0), p.asset)
		FROM entry e LEFT JOIN posting p ON p.entry_id = e.id
		GROUP BY e.id, p.asset HAVING count(p.leg) < 2 OR coalesce(sum(p.amount), 0) <> 0`,
	}, {
		"every reversal is the negation of its entry",
		`SELECT count(*) FROM entry WHERE kind = 'reversal'`,
		`SELECT format('entry %s: leg %s is %s, of what it undoes %s', e.id, legs.leg, r.amount, o.amount) FROM entry e
		CROSS JOIN LATERAL (SELECT generate_series(1, 16) AS leg) legs
		LEFT JOIN posting r ON r.entry_id = e.id AND r.leg = legs.leg
		LEFT JOIN posting o ON o.entry_id = e.reverses AND o.leg = legs.leg
		WHERE e.kind = 'reversal' AND (r.account_kind, r.owner_id, r.book, r.asset, -r.amount)
			IS DISTINCT FROM (o.account_kind, o.owner_id, o.book, o.asset, o.amount)`,
	}, {
		"key_inflight is the count of open holds without a report",
		`SELECT count(*) FROM key_inflight`,
		`SELECT format('key %s: in flight %s, open holds %s', key_id, f.n, h.n)
		FROM key_inflight f FULL JOIN (SELECT key_id, count(*) AS n FROM hold
			WHERE state = 'open'
				AND NOT EXISTS (SELECT FROM request_report w WHERE w.request_id = hold.request_id) GROUP BY key_id) h USING (key_id)
		WHERE coalesce(f.n, 0) <> coalesce(h.n, 0)`,
	},
}

// Audit checks the ledger on one view of its data; see audit.Source.
func (s *Store) Audit(ctx context.Context, each func(audit.Line)) (audit.Facts, error) {
	var facts audit.Facts
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		facts = audit.Facts{}
		// Grouped rows should stay in memory. The lock has the fold of passbooks go on meanwhile.
		if _, err := tx.Exec(ctx, `SELECT set_config('work_mem', '64MB', true),
			pg_advisory_xact_lock_shared(`+readerLock+`)`); err != nil {
			return fmt.Errorf("prepare the session: %w", err)
		}
		p, err := readPass(ctx, tx)
		if err != nil {
			return err
		}
		facts.Lines = p.sum(func(s sourceSums) int64 { return s.lines })
		for _, c := range passChecks {
			if err := runCheck(ctx, tx, &facts, c.name, c.checked(p), c.drift, c.suspect(p)); err != nil {
				return err
			}
		}
		for _, c := range slices.Concat(auditChecks, planChecks, spendChecks, categoryChecks, heldChecks, payoutChecks,
			monthChecks,
			holdingChecks, cardChecks, subscriptionChecks, passbookChecks, payableChecks) {
			var population int64
			if err := tx.QueryRow(ctx, c.population).Scan(&population); err != nil {
				return fmt.Errorf("count for %q: %w", c.name, err)
			}
			if err := runCheck(ctx, tx, &facts, c.name, population, c.drift, true); err != nil {
				return err
			}
		}
		if p.sum(func(s sourceSums) int64 { return s.amounts }) > 0 {
			if err := auditLines(ctx, tx, each); err != nil {
				return err
			}
		}
		if err := auditDays(ctx, tx, &facts); err != nil {
			return err
		}
		facts.Balances, err = trialBalance(ctx, tx, p)
		return err
	})
	return facts, err
}

// auditLines shows every settled request. A line without its hold is found by another
// check; here it is compared with itself.
func auditLines(ctx context.Context, tx pgx.Tx, each func(audit.Line)) error {
	rows, err := tx.Query(ctx, `SELECT s.request_id, s.source, s.prompt_tokens, s.completion_tokens,
			s.unit, s.input_rate, s.output_rate, s.payout_input_rate, s.payout_output_rate, s.cached_rate,
			s.vendor, s.cached_tokens, coalesce(h.unit, s.unit),
			coalesce(h.input_rate, s.input_rate), coalesce(h.output_rate, s.output_rate),
			coalesce(h.payout_input_rate, s.payout_input_rate), coalesce(h.payout_output_rate, s.payout_output_rate),
			CASE WHEN h.request_id IS NULL THEN s.cached_rate ELSE `+cachedRate+` END,
			s.list_price, s.payout, s.charged, s.shortfall, s.discount, coalesce(h.discount, -1), coalesce(h.amount, 0)
		FROM usage_settlement s LEFT JOIN hold h USING (request_id)`)
	if err != nil {
		return fmt.Errorf("read settled requests: %w", err)
	}
	var l audit.Line
	var request [16]byte
	var source string
	_, err = pgx.ForEachRow(rows, []any{
		&request, &source, &l.Tokens.Prompt, &l.Tokens.Completion,
		&l.Rates.Unit, &l.Rates.Input, &l.Rates.Output, &l.Rates.PayoutInput, &l.Rates.PayoutOutput,
		&l.Rates.PayoutCachedInput, &l.Vendor, &l.Cached,
		&l.Pinned.Unit, &l.Pinned.Input, &l.Pinned.Output, &l.Pinned.PayoutInput, &l.Pinned.PayoutOutput,
		&l.Pinned.PayoutCachedInput,
		&l.ListPrice, &l.Payout, &l.Charged, &l.Shortfall, &l.Discount, &l.Agreed, &l.Held,
	}, func() error {
		l.Request, l.Source = request, usage.Source(source)
		each(l)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read settled requests: %w", err)
	}
	return nil
}
