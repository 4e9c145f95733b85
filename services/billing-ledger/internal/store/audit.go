package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// auditChecks are the invariants that SQL can check: how many rows a rule is
// about, and one text for each row that breaks it.
var auditChecks = []struct{ name, population, drift string }{
	{
		"no wallet is overdrawn",
		`SELECT count(*) FROM wallet`,
		`SELECT format('account %s: posted %s, held %s', account_id, posted, held) FROM wallet
		WHERE posted < 0 OR held < 0 OR held > posted`,
	}, {
		"wallet.held is the sum of open holds",
		`SELECT count(*) FROM wallet`,
		`SELECT format('account %s: held %s, open holds %s', account_id, w.held, h.amount)
		FROM wallet w FULL JOIN (SELECT account_id, sum(amount) AS amount FROM hold WHERE state = 'open' GROUP BY account_id) h
			USING (account_id)
		WHERE coalesce(w.held, 0) <> coalesce(h.amount, 0)`,
	}, {
		"wallet.posted is postings less charges",
		`SELECT count(*) FROM wallet`,
		`SELECT format('account %s: posted %s, postings %s, charged %s', account_id, w.posted, p.amount, c.amount)
		FROM wallet w
		FULL JOIN (SELECT owner_id AS account_id, sum(amount) AS amount FROM posting
			WHERE account_kind = 'l:consumer:available' GROUP BY owner_id) p USING (account_id)
		FULL JOIN (SELECT account_id, sum(charged) AS amount FROM usage_settlement GROUP BY account_id) c USING (account_id)
		WHERE coalesce(w.posted, 0) <> coalesce(p.amount, 0) - coalesce(c.amount, 0)`,
	}, {
		"every settled hold has its settled request",
		`SELECT count(*) FROM hold WHERE state = 'settled'`,
		`SELECT format('request %s: hold is settled, and there is no line', h.request_id) FROM hold h
		WHERE h.state = 'settled' AND NOT EXISTS (SELECT FROM usage_settlement s
			WHERE s.request_id = h.request_id AND s.source IN ('payg', 'free'))`,
	}, {
		"every settled request has its closed hold",
		`SELECT count(*) FROM usage_settlement`,
		`SELECT format('request %s: source %s, and its hold is %s', s.request_id, s.source, coalesce(h.state, 'missing'))
		FROM usage_settlement s LEFT JOIN hold h USING (request_id)
		WHERE h.request_id IS NULL OR (s.account_id, s.key_id, s.model_id) <> (h.account_id, h.key_id, h.model_id)
			OR CASE WHEN s.source = 'orphan' THEN h.state NOT IN ('released', 'expired')
				ELSE h.state <> 'settled' OR s.source <> h.billing_type END`,
	}, {
		"no request is settled twice",
		`SELECT count(*) FROM usage_settlement`,
		`SELECT format('request %s: %s lines', request_id, count(*)) FROM usage_settlement GROUP BY request_id HAVING count(*) > 1`,
	}, {
		"orphan work has its entry, and no entry is without it",
		`SELECT count(*) FROM usage_settlement WHERE source = 'orphan' AND payout > 0`,
		`SELECT format('request %s: paid %s, posted %s', request_id, s.payout, e.amount)
		FROM (SELECT request_id::text, provider_id, payout FROM usage_settlement WHERE source = 'orphan' AND payout > 0) s
		FULL JOIN (SELECT e.business_id AS request_id, p.owner_id, p.amount FROM entry e
			JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:provider:accrued' WHERE e.kind = 'orphan_work') e
			USING (request_id)
		WHERE s.payout IS DISTINCT FROM e.amount OR s.provider_id IS DISTINCT FROM e.owner_id`,
	}, {
		"what the gateway's count settled was reviewed",
		`SELECT count(*) FROM usage_settlement WHERE witness = 'gateway'`,
		`SELECT format('request %s: settled from the gateway, and there is no review', s.request_id) FROM usage_settlement s
		WHERE s.witness = 'gateway' AND NOT EXISTS (SELECT FROM orphan_review v WHERE v.request_id = s.request_id)`,
	}, {
		"every entry balances",
		`SELECT count(*) FROM entry`,
		`SELECT format('entry %s: %s legs, sum %s', e.id, count(p.leg), coalesce(sum(p.amount), 0))
		FROM entry e LEFT JOIN posting p ON p.entry_id = e.id
		GROUP BY e.id HAVING count(p.leg) < 2 OR coalesce(sum(p.amount), 0) <> 0`,
	}, {
		"no payout exceeds its list price",
		`SELECT count(*) FROM usage_settlement`,
		`SELECT format('request %s: payout %s, list price %s', request_id, payout, list_price) FROM usage_settlement
		WHERE payout > list_price OR payout < 0`,
	}, {
		"key_inflight is the count of open holds",
		`SELECT count(*) FROM key_inflight`,
		`SELECT format('key %s: in flight %s, open holds %s', key_id, f.n, h.n)
		FROM key_inflight f FULL JOIN (SELECT key_id, count(*) AS n FROM hold WHERE state = 'open' GROUP BY key_id) h USING (key_id)
		WHERE coalesce(f.n, 0) <> coalesce(h.n, 0)`,
	},
}

// Audit checks the ledger on one view of it; see audit.Source.
func (s *Store) Audit(ctx context.Context, each func(audit.Line)) (audit.Facts, error) {
	var facts audit.Facts
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		facts = audit.Facts{}
		for _, c := range auditChecks {
			i := audit.Invariant{Name: c.name}
			if err := tx.QueryRow(ctx, c.population).Scan(&i.Checked); err != nil {
				return fmt.Errorf("count for %q: %w", c.name, err)
			}
			rows, err := tx.Query(ctx, c.drift)
			if err != nil {
				return fmt.Errorf("check %q: %w", c.name, err)
			}
			var example string
			if _, err := pgx.ForEachRow(rows, []any{&example}, func() error {
				i.Found(example)
				return nil
			}); err != nil {
				return fmt.Errorf("check %q: %w", c.name, err)
			}
			facts.Invariants = append(facts.Invariants, i)
		}
		if err := auditLines(ctx, tx, each); err != nil {
			return err
		}
		var err error
		facts.Balances, err = trialBalance(ctx, tx)
		return err
	})
	return facts, reachable(err)
}

// auditLines shows every settled request. A line without its hold is found by
// another check; here it is compared with itself.
func auditLines(ctx context.Context, tx pgx.Tx, each func(audit.Line)) error {
	rows, err := tx.Query(ctx, `SELECT s.request_id, s.source, s.prompt_tokens, s.completion_tokens,
			s.input_rate, s.output_rate, s.payout_input_rate, s.payout_output_rate,
			coalesce(h.input_rate, s.input_rate), coalesce(h.output_rate, s.output_rate),
			coalesce(h.payout_input_rate, s.payout_input_rate), coalesce(h.payout_output_rate, s.payout_output_rate),
			s.list_price, s.payout, s.charged, s.shortfall, coalesce(h.amount, 0)
		FROM usage_settlement s LEFT JOIN hold h USING (request_id)`)
	if err != nil {
		return fmt.Errorf("read settled requests: %w", err)
	}
	var l audit.Line
	var request [16]byte
	var source string
	_, err = pgx.ForEachRow(rows, []any{
		&request, &source, &l.Tokens.Prompt, &l.Tokens.Completion,
		&l.Rates.Input, &l.Rates.Output, &l.Rates.PayoutInput, &l.Rates.PayoutOutput,
		&l.Pinned.Input, &l.Pinned.Output, &l.Pinned.PayoutInput, &l.Pinned.PayoutOutput,
		&l.ListPrice, &l.Payout, &l.Charged, &l.Shortfall, &l.Held,
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

// trialBalance reads the chart: postings as they stand, settled requests by
// what their source says they are, and open holds as what they have moved from
// available to held.
func trialBalance(ctx context.Context, tx pgx.Tx) ([]audit.Balance, error) {
	rows, err := tx.Query(ctx, `WITH leg (kind, amount) AS (
			SELECT account_kind, amount FROM posting
			UNION ALL SELECT 'l:consumer:available', -charged FROM usage_settlement WHERE source = 'payg'
			UNION ALL SELECT 'e:shortfall', -shortfall FROM usage_settlement WHERE source = 'payg'
			UNION ALL SELECT 'l:provider:accrued', payout FROM usage_settlement WHERE source = 'payg'
			UNION ALL SELECT 'r:usage_margin', fee FROM usage_settlement WHERE source = 'payg'
			UNION ALL SELECT 'l:consumer:available', -amount FROM hold WHERE state = 'open'
			UNION ALL SELECT 'l:consumer:held', amount FROM hold WHERE state = 'open')
		SELECT c.kind, coalesce(sum(l.amount), 0)::bigint FROM chart c LEFT JOIN leg l USING (kind) GROUP BY c.kind ORDER BY c.kind`)
	if err != nil {
		return nil, fmt.Errorf("make the trial balance: %w", err)
	}
	var balances []audit.Balance
	var kind string
	var amount int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &amount}, func() error {
		balances = append(balances, audit.Balance{Account: ledger.AccountKind(kind), Amount: nano(amount)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make the trial balance: %w", err)
	}
	return balances, nil
}
