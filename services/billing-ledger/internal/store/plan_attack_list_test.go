package store_test

// planAttacks are attacks on plans that are sold, in the form of attacks.
const planAttacks = `
account_plan account_plan_subscription_id_fkey | from_at = '2020-01-01', until_at = '2020-01-02',
	subscription_id = gen_random_uuid()
plan_invoice plan_invoice_account_id_fkey | ! UPDATE plan_invoice SET account_id = gen_random_uuid()
plan_invoice plan_invoice_entry_id_fkey | ! UPDATE plan_invoice SET entry_id = gen_random_uuid()
plan_invoice plan_invoice_entry_id_key | id = 'x', payment_id = 'y'
plan_invoice plan_invoice_has_the_price | ! UPDATE plan_invoice SET cents = 599
plan_invoice plan_invoice_id_check | id = ''
plan_invoice plan_invoice_is_given_back_once | ! UPDATE plan_invoice SET refund_cause = 'late';
	UPDATE plan_invoice SET refund_cause = NULL => may not change any more
plan_invoice plan_invoice_month_check | month = '2026-13'
plan_invoice plan_invoice_payment_id_fkey | ! UPDATE plan_invoice SET payment_id = 'none'
plan_invoice plan_invoice_payment_id_key | id = 'x', entry_id = gen_random_uuid()
plan_invoice plan_invoice_period | period_end = period_start
plan_invoice plan_invoice_pkey | =
plan_invoice plan_invoice_refund | refund_due_at = now()
plan_invoice plan_invoice_refund_cause_check | refund_cause = 'odd'
plan_price plan_price_cents_check | cents = 499
plan_price plan_price_pkey | =
plan_price plan_price_plan_id_fkey | plan_id = 'none'
plan_return plan_return_cents_check | id = 'x', cents = 0
plan_return plan_return_entry_id_fkey | ! UPDATE plan_return SET entry_id = gen_random_uuid()
plan_return plan_return_entry_id_key | id = 'x'
plan_return plan_return_id_check | id = ''
plan_return plan_return_invoice_id_fkey | ! UPDATE plan_return SET invoice_id = 'none'
plan_return plan_return_month_check | month = '2026-00'
plan_return plan_return_pkey | =
plan_return plan_returns_within_invoice | id = 'x', cents = 501, entry_id =
	(SELECT id FROM entry WHERE kind = 'goodwill' LIMIT 1)
subscription subscription_account_id_fkey | ! UPDATE subscription SET account_id = gen_random_uuid()
subscription subscription_cause_check | ! UPDATE subscription SET state = 'ended', ended_at = now(), cause = 'odd',
	due_at = NULL
subscription subscription_checkout_id_fkey | ! UPDATE subscription SET checkout_id = gen_random_uuid()
subscription subscription_ends | ! UPDATE subscription SET cause = 'unpaid'
subscription subscription_moves | ! UPDATE subscription SET state = 'incomplete' => may not change any more
subscription subscription_object_id_check | id = gen_random_uuid(), object_id = ''
subscription subscription_one_at_a_time | id = gen_random_uuid()
subscription subscription_period | id = gen_random_uuid(), period_end = period_start
subscription subscription_pkey | =
subscription subscription_plan_id_fkey | ! UPDATE subscription SET plan_id = 'none'
subscription subscription_price | ! ALTER TABLE subscription DROP CONSTRAINT subscription_pkey CASCADE;
	INSERT INTO subscription SELECT * FROM subscription
subscription subscription_price_cents_check | id = gen_random_uuid(), price_cents = 0
subscription subscription_state_check | id = gen_random_uuid(), state = 'odd'
`
