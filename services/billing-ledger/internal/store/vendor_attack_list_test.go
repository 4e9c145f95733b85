package store_test

// vendorAttacks are attacks on what vendors are owed, in the form of attacks.
const vendorAttacks = `
posting vendor_never_overpaid | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'vendor_paid', 'x') RETURNING id, kind)
	INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
	SELECT e.id, v.leg, e.kind, v.account, v.owner IS NOT NULL, v.owner, v.amount
	FROM e, (VALUES (1, 'l:vendor:payable', gen_random_uuid(), -5), (2, 'a:bank', NULL::uuid, 5)) AS v (leg, account,
	owner, amount) => provider_never_short
usage_settlement cached_within_prompt | vendor = true, cached_tokens = prompt_tokens + 1,
	request_id = overlay(request_id::text placing '00' from 35)::uuid => cached of
usage_settlement only_a_vendor_is_cached | cached_tokens = 1
usage_settlement usage_settlement_cached_rate_check | cached_rate = -1
usage_settlement usage_settlement_cached_tokens_check | vendor = true, cached_tokens = -1
vendor vendor_pkey | =
vendor_price vendor_price_cached_rate_check | price_version_id = gen_random_uuid(), cached_rate = 0
vendor_price vendor_price_pkey | =
`
