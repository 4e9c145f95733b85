package store

import (
	"context"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// One pass reads every settled request beside its hold, once, and counts the
// contradictions. Only when there are any, a query names them. Two numbers show that no
// hold lacks its line and none has two: there are as many lines as settled holds, and the
// exclusive or of the hashes of their requests is the same. The chance that this misses
// an error is one in 2^64. Lines of cleared days have no holds to be compared with; their
// seals vouch for them.
const linesQuery = `WITH line AS MATERIALIZED (
	SELECT s.account_id, s.source, s.vendor, count(*) AS lines,
		count(*) FILTER (WHERE s.evidence_source = 'gateway') AS reviewed,
		count(*) FILTER (WHERE s.request_id >= (SELECT kept_from())) AS kept,
		count(*) FILTER (WHERE h.request_id IS NULL AND s.request_id >= (SELECT kept_from())
			OR (s.account_id, s.key_id, s.model_id) <> (h.account_id, h.key_id, h.model_id)
			OR CASE WHEN s.source = 'orphan' THEN h.state NOT IN ('released', 'expired')
				ELSE h.state <> 'settled' OR s.source <> h.billing_type END) AS unheld,
		count(*) FILTER (WHERE s.payout NOT BETWEEN 0 AND s.list_price) AS overpaid,
		count(*) FILTER (WHERE (s.unit, s.input_rate, s.output_rate, s.payout_input_rate, s.payout_output_rate,
					s.cached_rate)
				<> (h.unit, h.input_rate, h.output_rate, h.payout_input_rate, h.payout_output_rate,
					coalesce(vp.cached_rate, 0))
			-- What does not fit a bigint is worked out by the one who is shown it.
			OR CASE WHEN greatest(s.prompt_tokens, s.completion_tokens) > CASE s.unit WHEN 1 THEN 4000 ELSE 4000000 END
					OR greatest(s.input_rate, s.output_rate, s.payout_input_rate, s.payout_output_rate)
						> CASE s.unit WHEN 1 THEN 1000000000000000 ELSE 1000000000000 END
				THEN true
				ELSE s.list_price <> (s.prompt_tokens * s.input_rate + s.completion_tokens * s.output_rate + u.divisor / 2
						-- Half to even.
						- CASE WHEN (s.prompt_tokens * s.input_rate + s.completion_tokens * s.output_rate) % (2 * u.divisor)
							= u.divisor / 2
							THEN 1 ELSE 0 END) / u.divisor
					OR s.payout <> (s.prompt_tokens * s.payout_input_rate + s.completion_tokens * s.payout_output_rate
						- CASE WHEN s.cached_rate > 0 THEN s.cached_tokens * (s.payout_input_rate - s.cached_rate) ELSE 0 END)
						/ u.divisor
				END
			OR s.charged + s.shortfall + s.discount <> CASE s.source WHEN 'payg' THEN s.list_price ELSE 0 END
			OR CASE WHEN s.source <> 'payg' OR h.discount = 0 THEN s.discount <> 0
				ELSE s.discount <> div(s.list_price::numeric * h.discount, 10000) END
			OR s.charged < 0 OR s.shortfall < 0
			OR s.shortfall > 0 AND s.charged < h.amount) AS amounts,
		bit_xor(uuid_hash_extended(s.request_id, 0)) FILTER (WHERE s.request_id >= (SELECT kept_from())) AS requests,
		sum(s.charged) AS charged, sum(s.shortfall) AS shortfall, sum(s.discount) AS discount, sum(s.payout) AS payout,
		sum(s.fee) AS fee
	FROM usage_settlement s LEFT JOIN hold h USING (request_id)
	LEFT JOIN vendor_price vp ON vp.price_version_id = h.price_version_id
	-- What one nano-USD is of a rate times a count: audio is counted in milliseconds and priced by the minute.
	CROSS JOIN LATERAL (SELECT CASE s.unit WHEN 2 THEN 60000000 ELSE 1000 END AS divisor) u
	GROUP BY s.account_id, s.source, s.vendor)
SELECT source, sum(lines)::bigint, sum(kept)::bigint, sum(reviewed)::bigint, sum(unheld)::bigint, sum(overpaid)::bigint,
	sum(amounts)::bigint, coalesce(bit_xor(requests), 0), sum(charged)::bigint, sum(shortfall)::bigint,
	sum(discount)::bigint, sum(payout)::bigint, sum(fee)::bigint, coalesce(sum(payout) FILTER (WHERE vendor), 0)::bigint
FROM line GROUP BY source
UNION ALL
SELECT '', count(*), 0, 0,
	count(*) FILTER (WHERE coalesce(w.posted, 0) <> coalesce(p.amount, 0) - coalesce(c.amount, 0)),
	0, 0, 0, 0, 0, 0, 0, 0, 0
FROM wallet w
FULL JOIN (SELECT owner_id AS account_id, sum(amount) AS amount FROM posting
	WHERE account_kind = 'l:consumer:available' GROUP BY owner_id) p USING (account_id)
FULL JOIN (SELECT account_id, sum(charged) AS amount FROM line GROUP BY account_id) c USING (account_id)`

// sourceSums are the sums over the settled requests of one source. kept counts the lines
// of days that are not cleared, and requests hashes them. unheld, overpaid and amounts
// count the lines that look wrong.
type sourceSums struct {
	lines, kept, reviewed, unheld, overpaid, amounts int64
	requests                                         int64
	charged, shortfall, discount, payout, fee        int64
	// vendors is the part of payout that vendors are owed.
	vendors int64
}

// pass is the result of one reading of all settled requests and holds.
type pass struct {
	sources map[usage.Source]sourceSums
	// wallets is the number of wallets, and wrong the number of wallets that do not equal
	// their postings less their charges.
	wallets, wrong int64
	// settled is the number of settled holds, and requests the hash of their requests.
	settled, requests int64
}

func (p pass) sum(of func(sourceSums) int64) int64 {
	var total int64
	for s := range maps.Values(p.sources) {
		total += of(s)
	}
	return total
}

// matched reports whether the settled holds and the lines that settled them are of the
// same requests.
func (p pass) matched() bool {
	var lines, requests int64
	for source, s := range p.sources {
		if source != usage.Orphan {
			lines += s.kept
			requests ^= s.requests
		}
	}
	return lines == p.settled && requests == p.requests
}

func readPass(ctx context.Context, tx pgx.Tx) (pass, error) {
	p := pass{sources: map[usage.Source]sourceSums{}}
	rows, err := tx.Query(ctx, linesQuery)
	if err != nil {
		return pass{}, fmt.Errorf("read settled requests and holds: %w", err)
	}
	var source string
	var s sourceSums
	if _, err := pgx.ForEachRow(rows, []any{&source, &s.lines, &s.kept, &s.reviewed, &s.unheld, &s.overpaid, &s.amounts,
		&s.requests, &s.charged, &s.shortfall, &s.discount, &s.payout, &s.fee, &s.vendors}, func() error {
		if source == "" {
			p.wallets, p.wrong = s.lines, s.unheld
		} else {
			p.sources[usage.Source(source)] = s
		}
		return nil
	}); err != nil {
		return pass{}, fmt.Errorf("read settled requests and holds: %w", err)
	}
	if err := tx.QueryRow(ctx, `SELECT count(*), coalesce(bit_xor(uuid_hash_extended(request_id, 0)), 0) FROM hold
		WHERE state = 'settled' AND request_id >= (SELECT kept_from())`).
		Scan(&p.settled, &p.requests); err != nil {
		return pass{}, fmt.Errorf("count settled holds: %w", err)
	}
	return p, nil
}

// passChecks are the invariants of settled requests: the number of rows that each is
// about, whether the pass gives reason to look, and a query with one text for each row
// that breaks it.
var passChecks = []struct {
	name    string
	checked func(pass) int64
	suspect func(pass) bool
	drift   string
}{
	{
		"wallet.posted is postings less charges",
		func(p pass) int64 { return p.wallets },
		func(p pass) bool { return p.wrong > 0 },
		`SELECT format('account %s: posted %s, postings %s, charged %s', account_id, w.posted, p.amount, c.amount)
		FROM wallet w
		FULL JOIN (SELECT owner_id AS account_id, sum(amount) AS amount FROM posting
			WHERE account_kind = 'l:consumer:available' GROUP BY owner_id) p USING (account_id)
		FULL JOIN (SELECT account_id, sum(charged) AS amount FROM usage_settlement GROUP BY account_id) c USING (account_id)
		WHERE coalesce(w.posted, 0) <> coalesce(p.amount, 0) - coalesce(c.amount, 0)`,
	}, {
		"every settled hold has its settled request",
		func(p pass) int64 { return p.settled },
		func(p pass) bool { return !p.matched() },
		`SELECT format('request %s: hold is settled, and there is no line', h.request_id) FROM hold h
		WHERE h.state = 'settled' AND h.request_id >= (SELECT kept_from()) AND NOT EXISTS (SELECT FROM usage_settlement s
			WHERE s.request_id = h.request_id AND s.source <> 'orphan')`,
	}, {
		"every settled request has its closed hold",
		func(p pass) int64 { return p.sum(func(s sourceSums) int64 { return s.lines }) },
		func(p pass) bool { return p.sum(func(s sourceSums) int64 { return s.unheld }) > 0 },
		`SELECT format('request %s: source %s, and its hold is %s', s.request_id, s.source, coalesce(h.state, 'missing'))
		FROM usage_settlement s LEFT JOIN hold h USING (request_id)
		WHERE h.request_id IS NULL AND s.request_id >= (SELECT kept_from())
			OR (s.account_id, s.key_id, s.model_id) <> (h.account_id, h.key_id, h.model_id)
			OR CASE WHEN s.source = 'orphan' THEN h.state NOT IN ('released', 'expired')
				ELSE h.state <> 'settled' OR s.source <> h.billing_type END`,
	}, {
		"no request is settled twice",
		func(p pass) int64 { return p.sum(func(s sourceSums) int64 { return s.lines }) },
		func(p pass) bool { return !p.matched() || p.sources[usage.Orphan].lines > 0 },
		`SELECT format('request %s: %s lines', request_id, count(*)) FROM usage_settlement
			GROUP BY request_id HAVING count(*) > 1`,
	}, {
		"what the gateway's count settled was reviewed",
		func(p pass) int64 { return p.sum(func(s sourceSums) int64 { return s.reviewed }) },
		func(p pass) bool { return p.sum(func(s sourceSums) int64 { return s.reviewed }) > 0 },
		`SELECT format('request %s: settled from the gateway, and there is no review', s.request_id) FROM usage_settlement s
		WHERE s.evidence_source = 'gateway' AND s.request_id >= (SELECT kept_from())
			AND NOT EXISTS (SELECT FROM orphan_review v WHERE v.request_id = s.request_id)`,
	}, {
		"no payout exceeds its list price",
		func(p pass) int64 { return p.sum(func(s sourceSums) int64 { return s.lines }) },
		func(p pass) bool { return p.sum(func(s sourceSums) int64 { return s.overpaid }) > 0 },
		`SELECT format('request %s: payout %s, list price %s', request_id, payout, list_price) FROM usage_settlement
		WHERE payout > list_price OR payout < 0`,
	},
}

// trialBalance sums the postings as they stand, the settled requests by the legs of their
// source (the view usage_leg has the same, row by row), and the open holds as moved from
// available to held.
func trialBalance(ctx context.Context, tx pgx.Tx, p pass) ([]audit.Balance, error) {
	type account struct {
		kind  ledger.AccountKind
		asset ledger.Asset
	}
	sums := map[account]int64{}
	rows, err := tx.Query(ctx, `SELECT account_kind, asset, sum(amount)::bigint FROM posting GROUP BY account_kind, asset
		UNION ALL SELECT account_kind, 'usd', sum(amount)::bigint FROM hold_leg GROUP BY account_kind`)
	if err != nil {
		return nil, fmt.Errorf("make the trial balance: %w", err)
	}
	var kind, asset string
	var amount int64
	if _, err := pgx.ForEachRow(rows, []any{&kind, &asset, &amount}, func() error {
		sums[account{ledger.AccountKind(kind), ledger.Asset(asset)}] += amount
		return nil
	}); err != nil {
		return nil, fmt.Errorf("make the trial balance: %w", err)
	}
	payg, plan := p.sources[usage.PayAsYouGo], p.sources[usage.Plan]
	for kind, amount := range map[ledger.AccountKind]int64{
		ledger.Available: -payg.charged, ledger.Shortfall: -payg.shortfall - plan.vendors,
		ledger.Discount: -payg.discount,
		ledger.Accrued:  payg.payout - payg.vendors, ledger.UsageMargin: payg.fee,
		ledger.VendorPayable: payg.vendors + plan.vendors,
		ledger.PlanAccrual:   plan.vendors - plan.payout, ledger.PlanHeld: plan.payout - plan.vendors,
	} {
		sums[account{kind, ledger.USD}] += amount
	}
	var balances []audit.Balance
	for _, line := range ledger.Chart() {
		balances = append(balances, audit.Balance{Account: line.Kind, Asset: ledger.USD,
			Amount: money.NanoUSD(sums[account{line.Kind, ledger.USD}])})
		for token := range ledger.Tokens() {
			if n, ok := sums[account{line.Kind, ledger.Asset(token)}]; ok {
				balances = append(balances, audit.Balance{Account: line.Kind, Asset: ledger.Asset(token), Amount: money.NanoUSD(n)})
			}
		}
	}
	return balances, nil
}
