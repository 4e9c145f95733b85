package store_test

// sandboxAttacks are attacks on the tables of the card processor of the sandbox, in the form of attacks.
const sandboxAttacks = `
sandbox_session sandbox_session_cents_check | id = 'a_session_with_a_long_id', checkout = 'x', cents = 0
sandbox_session sandbox_session_checkout_key | id = 'a_session_with_a_long_id'
sandbox_session sandbox_session_check | ! UPDATE sandbox_session SET cost_cents = cents + 1 WHERE paid_at IS NULL
sandbox_session sandbox_session_cost_id_key | ! UPDATE sandbox_session SET payment_id = 'y', paid_at = now(),
	cost_id = (SELECT cost_id FROM sandbox_session WHERE paid_at IS NOT NULL) WHERE paid_at IS NULL
sandbox_session sandbox_session_description_check | id = 'a_session_with_a_long_id', checkout = 'x',
	description = repeat('x', 256)
sandbox_session sandbox_session_id_check | id = 'short', checkout = 'x'
sandbox_session sandbox_session_is_paid | ! UPDATE sandbox_session SET paid_at = now() WHERE paid_at IS NULL
sandbox_session sandbox_session_is_paid_once | ! UPDATE sandbox_session SET declined = true WHERE paid_at IS NOT NULL
	=> may not change any more
sandbox_session sandbox_session_payment_id_key | ! UPDATE sandbox_session SET cost_id = 'y', paid_at = now(),
	payment_id = (SELECT payment_id FROM sandbox_session WHERE paid_at IS NOT NULL) WHERE paid_at IS NULL
sandbox_session sandbox_session_pkey | checkout = 'x'
sandbox_session sandbox_session_return_url_check | id = 'a_session_with_a_long_id', checkout = 'x',
	return_url = repeat('x', 1025)
sandbox_return sandbox_one_dispute | id = 'a_return_with_a_long_id'
sandbox_return sandbox_return_cents_check | id = 'a_return_with_a_long_id', cents = 0
sandbox_return sandbox_return_id_check | id = 'short', kind = 'refund', key = 'x'
sandbox_return sandbox_return_key | id = 'a_return_with_a_long_id', kind = 'refund'
sandbox_return sandbox_return_key_key | ! INSERT INTO sandbox_return (id, session_id, kind, cents, key)
	SELECT 'a_return_with_a_long_id' || n, session_id, 'refund', 1, 'x' FROM sandbox_return, generate_series(1, 2) AS n
sandbox_return sandbox_return_kind_check | id = 'a_return_with_a_long_id', kind = 'odd'
sandbox_return sandbox_return_pkey | kind = 'refund', key = 'x'
sandbox_return sandbox_return_failed | ! UPDATE sandbox_return SET failed_at = now() WHERE kind = 'dispute'
sandbox_return sandbox_return_lost | ! UPDATE sandbox_return SET won_at = now(), lost_at = now()
sandbox_return sandbox_return_won | ! INSERT INTO sandbox_return (id, session_id, kind, cents, key)
	SELECT 'a_return_with_a_long_id', session_id, 'refund', 1, 'x' FROM sandbox_return;
	UPDATE sandbox_return SET won_at = now() WHERE kind = 'refund'
sandbox_return sandbox_return_session_id_fkey | id = 'a_return_with_a_long_id', session_id = 'x'
sandbox_subscription sandbox_subscription_ends | id = 'sbx_sub_2_with_a_long_id', due_at = NULL
sandbox_subscription sandbox_subscription_id_check | id = 'short'
sandbox_subscription sandbox_subscription_pkey | =
sandbox_subscription sandbox_subscription_session_id_fkey | id = 'sbx_sub_2_with_a_long_id', session_id = 'x'
sandbox_subscription sandbox_subscription_session_id_key | id = 'sbx_sub_2_with_a_long_id'
sandbox_invoice sandbox_invoice_check | id = 'sbx_in_2_with_a_long_id', number = 2, period_end = period_start
sandbox_invoice sandbox_invoice_ends | ! UPDATE sandbox_invoice SET void_at = now()
sandbox_invoice sandbox_invoice_id_check | id = 'short', number = 2
sandbox_invoice sandbox_invoice_number | id = 'sbx_in_2_with_a_long_id'
sandbox_invoice sandbox_invoice_number_check | id = 'sbx_in_2_with_a_long_id', number = 0
sandbox_invoice sandbox_invoice_pkey | number = 2
sandbox_invoice sandbox_invoice_session_id_fkey | ! UPDATE sandbox_invoice SET session_id = 'x'
sandbox_invoice sandbox_invoice_session_id_key | ! INSERT INTO sandbox_invoice (id, subscription_id, number,
	period_start, period_end) SELECT 'sbx_in_2_with_a_long_id', subscription_id, 2, period_start, period_end
	FROM sandbox_invoice; UPDATE sandbox_invoice SET session_id = 'sbx_cs_1_with_a_long_id'
sandbox_invoice sandbox_invoice_subscription_id_fkey | id = 'sbx_in_2_with_a_long_id', subscription_id = 'x'
sandbox_event sandbox_event_pkey | =
`
