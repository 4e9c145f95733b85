package grown

// accountsSQL makes $2 accounts; $1 says how many there are, which each statement of fill takes.
const accountsSQL = `WITH made AS (
	INSERT INTO account (id, name)
	SELECT gen_random_uuid(), 'grown' FROM generate_series($1::bigint + 1, $1::bigint + $2::bigint)
	RETURNING id),
credit AS (INSERT INTO wallet (account_id, posted) SELECT id, 1000000000000000 FROM made),
keys AS (
	INSERT INTO consumer_key (id, account_id, name, hash, prefix)
	SELECT gen_random_uuid(), id, '', sha256(id::text::bytea), 'grown' FROM made RETURNING id)
INSERT INTO key_inflight (key_id) SELECT id FROM keys`

// seriesSQL makes a series of usage of one model and provider for each key.
const seriesSQL = `INSERT INTO usage_series (account_id, key_id, model_id, provider_id, source, unit)
	SELECT account_id, id, 'grown', '00000000-0000-7000-8000-000000000001', 'payg', 0 FROM consumer_key
	ON CONFLICT DO NOTHING`

// linesSQL makes $2 settled requests after the $1 there are, in the order of their times. The times of each batch are
// spread over the part of the day before the product was started. Of two lines of an account at one moment, the
// passbook has the first alone.
const linesSQL = `WITH owner AS (
	SELECT array_agg(account_id) AS accounts, array_agg(key_id) AS keys, array_agg(id) AS series
	FROM usage_series WHERE model_id = 'grown'),
span AS (
	SELECT date_trunc('day', begun_at, 'UTC') AS begun, begun_at - date_trunc('day', begun_at, 'UTC') AS lasted
	FROM passbook_fold),
made AS MATERIALIZED (
	SELECT overlay(gen_random_uuid()::text PLACING left(h, 8) || '-' || right(h, 4) || '-7' FROM 1 FOR 15)::uuid
			AS request,
		accounts[1 + n % cardinality(accounts)] AS account, keys[1 + n % cardinality(accounts)] AS key,
		series[1 + n % cardinality(accounts)] AS series, at, (at AT TIME ZONE 'UTC')::date AS day,
		'00000000-0000-7000-8000-000000000001'::uuid AS provider, '00000000-0000-7000-8000-000000000002'::uuid AS price
	FROM owner, span, generate_series($1::bigint, $1::bigint + $2::bigint - 1) n,
		LATERAL (SELECT begun + lasted * ((n - $1::bigint)::float8 / $2::bigint) AS at) t,
		LATERAL (SELECT lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS h) u),
held AS (
	INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
		max_completion_tokens, pinned, price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate,
		rate_limit, rate_remaining, rate_reset_at, state, admitted_at, expires_at, closed_at)
	SELECT request, account, key, 'grown', 'payg', 10000000, 0, 1, false, price, 10000000000, 10000000000, 7000000000,
		7000000000, 0, 0, at, 'settled', at, at + interval '1 minute', at
	FROM made),
settled AS (
	INSERT INTO usage_settlement (day, request_id, account_id, key_id, provider_id, hub_id, attempt, epoch, model_id,
		price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, prompt_tokens, completion_tokens,
		list_price, payout, charged, shortfall, source, ending, claim_state, claimed_prompt, claimed_completion,
		recounted_completion, delivered_bytes, estimated_prompt, route_mode, requested_provider, fallback_reason,
		payload_hash, first_content_ms, settled_at)
	SELECT day, request, account, key, provider, 'hub-1', 1, 1, 'grown', price, 10000000000, 10000000000, 7000000000,
		7000000000, 0, 1, 10000000, 7000000, 10000000, 0, 'payg', 'completed', 'valid', 0, 1, 1, 4, 0, 'auto', '', '',
		sha256(request::text::bytea), 5, at
	FROM made)
INSERT INTO passbook_line (account_id, at, n, kind, ref, amount, balance, series_id, prompt_tokens, completion_tokens,
	list_price)
SELECT account, at, 1, 'usage', request, -10000000, 1000000000000000, series, 0, 1, 10000000 FROM made
ON CONFLICT DO NOTHING`
