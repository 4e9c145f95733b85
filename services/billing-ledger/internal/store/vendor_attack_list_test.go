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
vendor_invoice vendor_invoice_amount_check | number = '2', amount = 0
vendor_invoice vendor_invoice_asked_by_check | number = '2', asked_by = 'operator'
vendor_invoice vendor_invoice_by_two | number = '2', amount = 10000000000001
vendor_invoice vendor_invoice_by_two | number = '2', amount = 10000000000000, counted = 1
vendor_invoice vendor_invoice_by_two | number = '2', amount = 10000000, counted = 5000000000000
vendor_invoice vendor_invoice_counted_check | number = '2', counted = 0
vendor_invoice vendor_invoice_is_paid | number = '2', paid_by = NULL
vendor_invoice vendor_invoice_is_posted | number = '2'
vendor_invoice vendor_invoice_note_check | number = '2', note = ''
vendor_invoice vendor_invoice_number_check | number = 'inv'
vendor_invoice vendor_invoice_paid_by_check | number = '2', paid_by = 'alice'
vendor_invoice vendor_invoice_pkey | =
vendor_invoice vendor_invoice_stands | ! UPDATE vendor_invoice SET paid_by = NULL, paid_at = NULL
	=> may not change any more
vendor_invoice vendor_invoice_vendor_id_fkey | vendor_id = gen_random_uuid()
vendor_price vendor_price_cached_rate_check | price_version_id = gen_random_uuid(), cached_rate = -1
vendor_price vendor_price_pkey | =
`
