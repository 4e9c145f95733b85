package store_test

import (
	"testing"

	"svc.internal/services/billing-ledger/internal/audit"
)

// fill makes so many accounts with a key and a grant each, and so many holds of
// them: all settled but one in 150, and one in 50 of the settled a shortfall.
// Each request has 1000 prompt and 500 completion tokens.
func (e *env) fill(t testing.TB, accounts, holds int) {
	t.Helper()
	e.exec(t, `INSERT INTO account (id, name)
		SELECT ('018f0000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'a' || i
		FROM generate_series(0, $1 - 1) i`, accounts)
	e.exec(t, `INSERT INTO consumer_key (id, account_id, name, hash, prefix)
		SELECT ('018f0000-0000-7000-9000-' || right(id::text, 12))::uuid, id, '', sha256(id::text::bytea), '' FROM account`)
	e.exec(t, `INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
			max_completion_tokens, pinned, price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate,
			rate_limit, rate_remaining, rate_reset_at, state, admitted_at, expires_at, closed_at)
		SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 3600000 + i), 12, '0')
			|| '7000a000' || lpad(to_hex(i), 12, '0'))::uuid,
			('018f0000-0000-7000-8000-' || lpad(to_hex(i % $1), 12, '0'))::uuid,
			('018f0000-0000-7000-9000-' || lpad(to_hex(i % $1), 12, '0'))::uuid, 'acme/large', 'payg',
			CASE WHEN i % 50 = 1 THEN 400000 ELSE 900000 END, 1150, 1000, false, '018f0000-0000-7000-8000-000000000001', 150000,
				600500, 105000, 420000, 0, 0, now(), CASE WHEN i % 150 = 0 THEN 'open' ELSE 'settled' END,
			now(), now() + interval '1 hour', CASE WHEN i % 150 = 0 THEN NULL ELSE now() END
		FROM generate_series(0, $2 - 1) i`, accounts, holds)
	e.exec(t, `INSERT INTO usage_settlement (day, request_id, account_id, key_id, provider_id, hub_id, attempt, epoch,
			model_id, price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, prompt_tokens,
			completion_tokens, list_price, payout, charged, shortfall, source, ending, claim_state, claimed_prompt,
			claimed_completion, recounted_completion, delivered_bytes, estimated_prompt, route_mode, requested_provider,
			fallback_reason, payload_hash, first_content_ms)
		SELECT date '1970-01-01' + (('x' || left(replace(request_id::text, '-', ''), 12))::bit(48)::bigint
			/ 86400000)::integer,
			request_id, account_id, key_id, account_id, 'hub-1', 1, 7, model_id, price_version_id, input_rate, output_rate,
			payout_input_rate, payout_output_rate, 1000, 500, 450250, 315000, least(amount, 450250),
			450250 - least(amount, 450250), 'payg', 'completed', 'valid', 1000, 500, 500, 2000, 1100, 'auto', '', '',
			sha256(request_id::text::bytea), 200
		FROM hold WHERE state = 'settled'`)
	e.exec(t, `WITH e AS (INSERT INTO entry (id, kind, business_id) SELECT id, 'goodwill', id::text FROM account
		RETURNING id)
		INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
		SELECT id, leg, 'goodwill', CASE leg WHEN 1 THEN 'e:goodwill' ELSE 'l:consumer:available' END, leg = 2,
			CASE leg WHEN 2 THEN id END, CASE leg WHEN 1 THEN -1000000000000 ELSE 1000000000000 END
				FROM e, generate_series(1, 2) leg`)
	e.exec(t, `INSERT INTO wallet (account_id, posted, held)
		SELECT a.id, 1000000000000 - coalesce(s.charged, 0), coalesce(h.amount, 0) FROM account a
		LEFT JOIN (SELECT account_id, sum(charged) AS charged FROM usage_settlement GROUP BY 1) s ON s.account_id = a.id
		LEFT JOIN (SELECT account_id, sum(amount) AS amount FROM hold WHERE state = 'open' GROUP BY 1) h
			ON h.account_id = a.id`)
	e.exec(t, `INSERT INTO key_inflight (key_id, n) SELECT k.id, count(h.request_id) FROM consumer_key k
		LEFT JOIN hold h ON h.key_id = k.id AND h.state = 'open' GROUP BY k.id`)
	for _, table := range []string{
		"hold", "usage_settlement", "wallet", "posting", "entry", "key_inflight", "request_report",
	} {
		e.exec(t, `ANALYZE `+table)
	}
}

func BenchmarkVerify(b *testing.B) {
	e, flush := durable(b)
	e.fill(b, 1000, 150_000)
	e.sound(b)
	b.Run(flush+"/holds=150000", func(b *testing.B) {
		for b.Loop() {
			if _, err := audit.Run(b.Context(), e.store); err != nil {
				b.Fatal(err)
			}
		}
	})
}
