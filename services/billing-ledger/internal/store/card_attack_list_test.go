package store_test

// cardAttacks are attacks on payments by card, in the form of attacks.
const cardAttacks = `
card_payment card_payment_cents | id = 'x', cents = 0
card_payment card_payment_checkout_id_fkey | id = 'x', cost_id = 'x', entry_id = (SELECT id FROM entry
	WHERE kind = 'goodwill' LIMIT 1), checkout_id = gen_random_uuid()
card_payment card_payment_once | id = 'x', cost_id = 'x', entry_id = gen_random_uuid()
card_payment card_payment_card_fingerprint_check | id = 'x', card_fingerprint = 'x'
card_payment card_payment_invoice_id_check | id = 'x', invoice_id = ''
card_payment card_payment_invoice_id_key | ! INSERT INTO card_payment (id, checkout_id, cents, cost_id, cost_cents,
	entry_id, invoice_id) SELECT 'x' || n, (SELECT id FROM checkout WHERE state = 'created'), 2000, 'x' || n, 0, id, 'in'
	FROM (SELECT id, row_number() OVER () AS n FROM entry LIMIT 2) e
card_payment card_payment_number_key | ! INSERT INTO card_payment (number, id, checkout_id, cents, cost_id, cost_cents,
	entry_id) OVERRIDING SYSTEM VALUE SELECT number, 'x', (SELECT id FROM checkout WHERE state = 'created'), 2000, 'x', 0,
	(SELECT id FROM entry LIMIT 1) FROM card_payment
card_payment card_payment_cost | id = 'x', cost_cents = cents + 1
card_payment card_payment_cost_id_check | id = 'x', cost_id = ''
card_payment card_payment_cost_id_key | id = 'x', checkout_id = gen_random_uuid()
card_payment card_payment_entry_id_fkey | id = 'x', cost_id = 'x', checkout_id = (SELECT id FROM checkout
	WHERE state = 'created'), entry_id = gen_random_uuid()
card_payment card_payment_entry_id_key | id = 'x', cost_id = 'x', checkout_id = gen_random_uuid()
card_payment card_payment_id_check | id = ''
card_payment card_payment_is_paid | id = 'x', cost_id = 'x', checkout_id = (SELECT id FROM checkout
	WHERE state = 'created'),
	entry_id = (SELECT id FROM entry WHERE kind = 'goodwill' LIMIT 1)
card_payment card_payment_pkey | =
card_payment card_payment_stands | ! UPDATE card_payment SET id = 'x' => may not change any more
card_refund card_refund_attempts | ! INSERT INTO card_refund_failure (object_id, refund_id, attempt)
	SELECT 'odd' || n, id, n FROM card_refund, generate_series(2, 3) AS n;
	UPDATE card_refund SET attempt = 2; UPDATE card_refund SET attempt = 3; UPDATE card_refund SET attempt = 4;
	UPDATE card_refund SET attempt = 5
card_refund card_refund_begins_once | ! INSERT INTO card_refund (id, payment_id, cents, on_card, attempt)
	SELECT gen_random_uuid(), payment_id, 1, true, 2 FROM card_refund => may not change any more
card_refund card_refund_failed | ! UPDATE card_refund SET attempt = 2
card_refund card_refund_tries_again | ! UPDATE card_refund SET attempt = 3 => may not change any more
card_refund_failure card_refund_failed | object_id = 'odd', attempt = 3, entry_id = NULL
card_refund_failure card_refund_failure_entry_id_fkey | object_id = 'odd', attempt = 3, entry_id = gen_random_uuid()
card_refund_failure card_refund_failure_entry_id_key | ! INSERT INTO card_refund_failure (object_id, refund_id, attempt,
	entry_id) SELECT 'odd' || n, r.id, n, e.id FROM card_refund r, generate_series(2, 3) AS n,
	(SELECT id FROM entry LIMIT 1) e
card_refund_failure card_refund_failure_object_id_check | object_id = '', attempt = 3, entry_id = NULL
card_refund_failure card_refund_failure_once | object_id = 'odd', entry_id = NULL
card_refund_failure card_refund_failure_pkey | attempt = 3, entry_id = NULL
card_refund_failure card_refund_failure_refund_id_fkey | object_id = 'odd', refund_id = gen_random_uuid(),
	entry_id = NULL
card_refund card_refund_begins | ! INSERT INTO card_refund (id, payment_id, cents, on_card, state, ended_at)
	SELECT gen_random_uuid(), payment_id, 1, true, 'from_bank', now() FROM card_refund => may not change any more
card_refund card_refund_by_card | ! UPDATE card_refund SET state = 'by_card', ended_at = now()
card_refund card_refund_cents_check | id = gen_random_uuid(), cents = 0
card_refund card_refund_ends | ! UPDATE card_refund SET state = 'from_bank'
card_refund card_refund_ends_once | ! UPDATE card_refund SET state = 'from_bank', ended_at = now();
	UPDATE card_refund SET state = 'asked', ended_at = NULL => may not change any more
card_refund card_refund_is_unpaid | ! UPDATE card_refund SET state = 'reversed', ended_at = now();
	WITH e AS (INSERT INTO entry (id, kind, business_id)
	SELECT gen_random_uuid(), 'collateral_refund_paid', id::text FROM card_refund RETURNING id, kind)
	INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
	SELECT id, leg, kind, account_kind, owned, CASE WHEN owned THEN gen_random_uuid() END, amount FROM e,
	(VALUES (1, 'l:provider:collateral_refund_pending', true, -1), (2, 'a:bank', false, 1)) AS l (leg, account_kind,
	owned, amount)
card_refund card_refund_note | id = gen_random_uuid(), note = repeat('x', 201)
card_refund card_refund_object_id_check | ! UPDATE card_refund SET state = 'by_card', ended_at = now(), object_id = ''
card_refund card_refund_object_id_key | ! INSERT INTO card_refund (id, payment_id, cents, on_card)
	SELECT gen_random_uuid(), payment_id, 1, true FROM card_refund;
	UPDATE card_refund SET state = 'by_card', ended_at = now(), object_id = 'x'
card_refund card_refund_payment_id_fkey | id = gen_random_uuid(), payment_id = 'x'
card_refund card_refund_pkey | =
posting card_credit_is_paid | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	SELECT gen_random_uuid(), 'card_topup', id::text FROM checkout WHERE state = 'paid' RETURNING id, kind)
	INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
	SELECT id, leg, kind, account_kind, owned, CASE WHEN owned THEN (SELECT id FROM account LIMIT 1) END, amount FROM e,
	(VALUES (1, 'a:card_clearing', false, -20000000000), (2, 'l:consumer:available', true, 20000000000)) AS l (leg,
	account_kind, owned, amount)
card_refund card_refund_state_check | ! UPDATE card_refund SET state = 'odd', ended_at = now()
card_refund card_refund_within_payment | id = gen_random_uuid(), cents = 2000 => card_returns_within_payment
card_reversal card_reversal_cause_check | id = 'x', cause = 'odd'
card_reversal card_reversal_cents_check | id = 'x', cents = 0
card_reversal card_reversal_entry_id_fkey | id = 'x', entry_id = gen_random_uuid()
card_reversal card_reversal_entry_id_key | id = 'x'
card_reversal card_reversal_id_check | id = ''
card_reversal card_reversal_payment_id_fkey | id = 'x', payment_id = 'x', entry_id = (SELECT id FROM entry
	WHERE kind = 'goodwill' LIMIT 1)
card_reversal card_reversal_pkey | =
card_reversal card_reversal_within_payment | id = 'x', cents = 2001, entry_id = (SELECT id FROM entry
	WHERE kind = 'goodwill' LIMIT 1) => card_returns_within_payment
card_dispute_won card_dispute_won_entry_id_fkey | ! INSERT INTO card_reversal (id, payment_id, cause, cents, entry_id)
	SELECT 'x', payment_id, cause, 1, (SELECT id FROM entry WHERE kind = 'goodwill' LIMIT 1) FROM card_reversal;
	INSERT INTO card_dispute_won (reversal_id, entry_id) VALUES ('x', gen_random_uuid())
card_dispute_won card_dispute_won_entry_id_key | reversal_id = 'x'
card_dispute_won card_dispute_won_pkey | entry_id = gen_random_uuid()
card_dispute_won card_dispute_won_reversal_id_fkey | reversal_id = 'x', entry_id = (SELECT id FROM entry
	WHERE kind = 'goodwill' LIMIT 1)
card_change card_change_cents_check | reference = 'x', cents = 0
card_change card_change_checkout_id_fkey | reference = 'x', checkout_id = gen_random_uuid()
card_change card_change_entry_id_fkey | reference = 'x', entry_id = gen_random_uuid()
card_change card_change_follows | ! ALTER TABLE card_change ADD CONSTRAINT later CHECK (number > 1000) NOT VALID;
	INSERT INTO card_change (kind, checkout_id, reference, cents, entry_id) SELECT kind, checkout_id, 'x', cents, entry_id
	FROM card_change LIMIT 1 => later
card_change card_change_kind_check | reference = 'x', kind = 'odd', entry_id = NULL
card_change card_change_number_check | ! UPDATE card_change SET number = 0
card_change card_change_once | =
card_change card_change_pkey | ! UPDATE card_change SET number = 1
card_change card_change_posts | reference = 'x', entry_id = NULL
card_change card_change_reference_check | reference = ''
card_listing card_listing_pkey | =
card_listing card_listing_processor_check | processor = 'bank'
card_alarm card_alarm_closed_by_check | ! UPDATE card_alarm SET closed_at = now(), closed_by = ''
card_alarm card_alarm_closes_once | ! UPDATE card_alarm SET closed_at = now(), closed_by = 'x';
	UPDATE card_alarm SET closed_by = 'y' => may not change any more
card_alarm card_alarm_detail_check | object = 'x', detail = repeat('x', 1025)
card_alarm card_alarm_is_closed | ! UPDATE card_alarm SET closed_at = now()
card_alarm card_alarm_object_check | object = ''
card_alarm card_alarm_pkey | =
card_alarm card_alarm_reason_check | reason = ''
`
