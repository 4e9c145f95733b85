package store_test

// attacks try to break every constraint and trigger of the schema, one by one,
// as the application's role; where that may not write, as the owner, after the
// role was refused. Each line is "table object | attack": the columns with which
// a row of the table is inserted again ("=" for the same row), or SQL after "!".
// What it must be refused for is the object's name, or what follows "=>".
// A line that begins with a tab continues the line before it.
const attacks = `
account account_idempotency_key_check | idempotency_key = ''
account account_idempotency_key_key | id = gen_random_uuid(), idempotency_key = 'taken'
account account_name_check | name = ''
account account_pkey | idempotency_key = NULL
account account_state_check | state = 'gone'
account account_state_is_kept | ! UPDATE account SET state = 'frozen'
account_limits account_limits_account_id_fkey | account_id = gen_random_uuid()
account_limits account_limits_concurrent_requests_check | concurrent_requests = -2
account_limits account_limits_requests_per_minute_check | requests_per_minute = -2
account_limits account_limits_day_cap_check | day_cap = -1
account_limits account_limits_month_cap_check | month_cap = 1000000000000000001
account_limits account_limits_own_day_cap_check | own_day_cap = -1
account_limits account_limits_own_month_cap_check | own_month_cap = -1
account_limits account_limits_account_per_minute_check | account_per_minute = -1
account_limits account_limits_class_per_minute | class_per_minute = '{0,0,0,1,0,0}', terms_note = 'n'
account_limits account_limits_class_concurrent | class_concurrent = '{-1,0,0,0,0,0}', terms_note = 'n'
account_limits account_limits_class_tokens | class_tokens = '{0,0,0,0,5,0}', terms_note = 'n'
account_limits account_limits_discount_check | discount = 9001, terms_note = 'n'
account_limits account_limits_terms_have_a_note | discount = 1
account_limits account_limits_terms_note_check | terms_note = ''
account_limits account_limits_pkey | =
category_gate category_gate_account_id_fkey | account_id = gen_random_uuid()
category_gate category_gate_bounds | open = -1
category_gate category_gate_class_check | class = 4
category_gate category_gate_pkey | =
category_tokens category_tokens_account_id_fkey | account_id = gen_random_uuid()
category_tokens category_tokens_bounds | used = -1
category_tokens category_tokens_cap | used = 6
category_tokens category_tokens_cap_check | cap = 0, used = 0
category_tokens category_tokens_class_check | class = 4
category_tokens category_tokens_excess_check | excess = -1
category_tokens category_tokens_pkey | =
hold hold_is_sound | request_id = gen_random_uuid(), counted_class = 4 => hold_counted_class_check
hold hold_is_sound | request_id = gen_random_uuid(), discount = 9001 => hold_discount_check
spend_counter spend_counter_bounds | spent = -1
spend_counter spend_counter_cap | held = cap + 1, spent = 0, excess = 0
spend_counter spend_counter_period_check | period = 'year'
spend_counter spend_counter_pkey | =
spend_counter spend_counter_window | period = 'week', window_start = '2027-01-05'
hold hold_is_sound | request_id = gen_random_uuid(), spend_pins = 1 => hold_spend_is_pinned
hold hold_is_sound | request_id = gen_random_uuid(), spend_pins = 64, spend_day = now() => hold_spend_pins_check
account_mark account_mark_account_id_fkey | account_id = gen_random_uuid()
account_mark account_mark_cause_check | cause = 'payout_address'
account_mark account_mark_evidence_check | evidence = 'short'
account_mark account_mark_pkey | =
account_plan account_plan_account_id_fkey | account_id = gen_random_uuid()
account_plan account_plan_check | from_at = now(), until_at = now() - interval '1 day'
account_plan account_plan_pkey | =
account_plan account_plan_plan_id_fkey | account_id = (SELECT id FROM account WHERE name = 'other'), plan_id = 'none'
account_plan one_plan_at_a_time | from_at = from_at + interval '1 hour'
account_plan account_plan_stays | ! DELETE FROM account_plan => may not change any more
provider_mark provider_mark_cause_check | cause = 'looks'
provider_mark provider_mark_evidence_check | evidence = 'short'
provider_mark provider_mark_pkey | =
account_state_change account_state_change_account_id_fkey | account_id = gen_random_uuid()
account_state_change account_state_change_is_made | state = 'frozen' => state of its last change
account_state_change account_state_change_memo_check | memo = repeat('x', 201)
account_state_change account_state_change_pkey | ! INSERT INTO account_state_change OVERRIDING SYSTEM VALUE SELECT *
	FROM account_state_change
account_state_change account_state_change_state_check | state = 'gone'
account_state_change account_state_change_stays | ! UPDATE account_state_change SET memo = 'x'
	=> may not change any more
app_user app_user_account_id_fkey | id = gen_random_uuid(), email = 'b@x', account_id = gen_random_uuid(),
	provider_id = NULL
app_user app_user_account_id_key | id = gen_random_uuid(), email = 'b@x'
app_user app_user_display_name_check | display_name = repeat('x', 65)
app_user app_user_email_check | email = 'A@x'
app_user app_user_email_key | id = gen_random_uuid(), account_id = (SELECT id FROM account WHERE name = 'other')
app_user app_user_password_hash_check | password_hash = 'secret'
app_user app_user_pkey | email = 'b@x', account_id = (SELECT id FROM account WHERE name = 'other')
app_user app_user_provider_id_key | id = gen_random_uuid(), email = 'b@x',
	account_id = (SELECT id FROM account WHERE name = 'other')
app_user app_user_provider_stands | ! UPDATE app_user SET provider_id = NULL => may not change any more
asset asset_decimals_check | decimals = 10
asset asset_id_check | id = 'doge'
asset asset_pkey | =
balance_snapshot balance_snapshot_account_kind_fkey | account_kind = 'l:none'
balance_snapshot balance_snapshot_asset_fkey | asset = 'doge', book = 'x'
balance_snapshot balance_snapshot_day_fkey | day = day + 1000
balance_snapshot balance_snapshot_pkey | =
chart chart_book_check | kind = 'l:mine', book = 'year'
chart chart_kind_owned_book_key | ! ALTER TABLE chart DROP CONSTRAINT chart_kind_owned_book_key => depend on it
chart chart_normal_check | kind = 'l:mine', normal = 'left'
chart chart_pkey | =
cleared_day cleared_day_day_fkey | day = day + 1000
cleared_day cleared_day_pkey | =
closed_day closed_day_pkey | =
closed_day day_is_over | day = now()::date => is not over
closed_month closed_month_begins_last | ! UPDATE held_earning SET book = '2000-02', ended_as = 'released',
	ended_at = now(), reason = 'x'; INSERT INTO closed_month (month, through, pool, earned, paid, providers)
	SELECT '2000-02', through, pool, earned, paid, providers FROM closed_month => ended meanwhile
closed_month closed_month_earned_check | month = '2000-02', earned = -1, paid = -1
closed_month closed_month_is_over | month = '2999-01'
closed_month closed_month_month_check | month = '2000-1'
closed_month closed_month_pays | month = '2000-02', paid = 7
closed_month closed_month_pkey | =
closed_month closed_month_pool_check | month = '2000-02', pool = -1, paid = -1
closed_month closed_month_providers_check | month = '2000-02', providers = -1
closed_month closed_month_through_fkey | month = '2000-02', through = through - 1000
closed_share closed_share_check | provider_id = gen_random_uuid(), withheld = 8
closed_share closed_share_earned_check | provider_id = gen_random_uuid(), earned = 0, paid = 0, withheld = 0,
	withheld_paid = 0
closed_share closed_share_month_fkey | month = '2000-02'
closed_share closed_share_paid | provider_id = gen_random_uuid(), paid = 8
closed_share closed_share_pkey | =
closed_share closed_share_withholds | provider_id = gen_random_uuid()
closed_share closed_share_waits | provider_id = gen_random_uuid(), withheld_paid = 3
checkout checkout_account_id_fkey | id = gen_random_uuid(), account_id = gen_random_uuid()
checkout checkout_begins | ! INSERT INTO checkout (id, purpose, provider_id, cents, fee_cents, processor, livemode,
	return_url, expires_at, state) SELECT gen_random_uuid(), purpose, provider_id, cents, fee_cents, processor, livemode,
	return_url, expires_at, 'expired' FROM checkout LIMIT 1 => may not change any more
checkout checkout_cents_check | id = gen_random_uuid(), cents = 499
checkout checkout_fee | id = gen_random_uuid(), fee_cents = 1
checkout checkout_has_its_page | ! UPDATE checkout SET url = NULL, session_id = 'x' WHERE state = 'created'
checkout checkout_is_paid | ! UPDATE checkout SET state = 'paid' WHERE state = 'created'
checkout checkout_moves | ! UPDATE checkout SET state = 'created', paid_at = NULL WHERE state = 'paid'
	=> may not change any more
checkout checkout_pkey | =
checkout checkout_processor_check | id = gen_random_uuid(), processor = 'bank'
checkout checkout_is_of_one | id = gen_random_uuid(), purpose = 'topup'
checkout checkout_plan | id = gen_random_uuid(), plan_id = 'pro'
checkout checkout_plan_id_fkey | id = gen_random_uuid(), purpose = 'plan', plan_id = 'odd', provider_id = NULL,
	account_id = (SELECT id FROM account LIMIT 1)
checkout checkout_purpose_check | id = gen_random_uuid(), purpose = 'gift', provider_id = NULL,
	account_id = (SELECT id FROM account LIMIT 1)
checkout checkout_return_url_check | id = gen_random_uuid(), return_url = ''
checkout checkout_sandbox_moves_no_money | id = gen_random_uuid(), livemode = true
checkout checkout_session_id_check | ! UPDATE checkout SET session_id = '', url = 'x' WHERE session_id IS NULL
checkout checkout_session_id_key | ! UPDATE checkout SET session_id = (SELECT session_id FROM checkout
	WHERE state = 'paid'), url = 'x' WHERE session_id IS NULL
checkout checkout_state_check | ! UPDATE checkout SET state = 'odd' WHERE state = 'created' => may not change any more
checkout checkout_url_check | ! UPDATE checkout SET session_id = 'x', url = '' WHERE session_id IS NULL
account_freeze account_freeze_account_id_fkey | account_id = gen_random_uuid()
account_freeze account_freeze_cause_check | cause = 'odd'
account_freeze account_freeze_is_lifted_once | ! UPDATE account_freeze SET lifted_at = now();
	UPDATE account_freeze SET lifted_at = NULL => may not change any more
account_freeze account_freeze_is_told | ref = 'odd', account_id = (SELECT id FROM account WHERE state = 'open' LIMIT 1)
account_freeze account_freeze_once | =
account_freeze account_freeze_pkey | ! INSERT INTO account_freeze (id, account_id, cause, ref) OVERRIDING SYSTEM VALUE
	SELECT id, account_id, cause, 'odd' FROM account_freeze
account_freeze account_freeze_ref_check | ref = repeat('x', 256)
account_freeze account_freeze_stays | ! DELETE FROM account_freeze => may not change any more
card_debt card_debt_account_id_fkey | ! INSERT INTO card_reversal (id, payment_id, cause, cents, entry_id)
	SELECT 'x', payment_id, cause, 1, (SELECT id FROM entry WHERE kind = 'goodwill' LIMIT 1) FROM card_reversal;
	INSERT INTO card_debt (reversal_id, account_id, owed) VALUES ('x', gen_random_uuid(), 1)
card_debt card_debt_ends | ! UPDATE card_debt SET paid = owed + 1
card_debt card_debt_lost_check | ! UPDATE card_debt SET lost = -1
card_debt card_debt_owed_check | ! INSERT INTO card_debt (reversal_id, account_id, owed, due_at)
	SELECT 'dp2', account_id, 0, NULL FROM card_debt
card_debt card_debt_paid_check | ! INSERT INTO card_debt (reversal_id, account_id, owed, paid)
	SELECT 'dp2', account_id, 1, -1 FROM card_debt
card_debt card_debt_pkey | =
card_debt card_debt_reversal_id_fkey | reversal_id = 'odd'
card_debt card_debt_stands | ! UPDATE card_debt SET owed = owed + 1 => may not change any more
card_debt card_debt_undone_check | ! UPDATE card_debt SET undone = -1
card_refund card_refund_asked_by_check | id = gen_random_uuid(), cents = 1, asked_by = ''
card_refund card_refund_entry_id_fkey | id = gen_random_uuid(), cents = 1, entry_id = gen_random_uuid()
card_refund card_refund_entry_id_key | ! INSERT INTO card_refund (id, payment_id, cents, on_card, entry_id)
	SELECT gen_random_uuid(), payment_id, 1, true, (SELECT id FROM entry LIMIT 1) FROM card_refund, generate_series(1, 2)
processor_event processor_event_id_check | id = ''
processor_event processor_event_names_an_object | id = 'x', object_id = ''
processor_event processor_event_object_id_check | id = 'x', object_id = repeat('x', 256)
processor_event processor_event_object_kind_check | id = 'x', object_kind = 'odd'
processor_event processor_event_pkey | =
processor_event processor_event_processor_check | id = 'x', processor = 'bank'
processor_event processor_event_sha256_check | id = 'x', sha256 = 'short'
posting card_collateral_is_paid | ! WITH e AS (INSERT INTO entry (id, kind, business_id) VALUES (gen_random_uuid(),
	'collateral_card', 'nobody_paid') RETURNING id), p AS (INSERT INTO posting (entry_id, leg, entry_kind, account_kind,
	account_owned, owner_id, amount) SELECT id, 1, 'collateral_card', 'a:card_clearing', false, NULL::uuid, -20 FROM e
	RETURNING entry_id) INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
	SELECT entry_id, 2, 'collateral_card', 'l:provider:collateral', true, gen_random_uuid(), 20 FROM p
consumer_key consumer_key_account_id_fkey | id = gen_random_uuid(), hash = sha256('x'), account_id = gen_random_uuid()
consumer_key consumer_key_allowed_models_check | allowed_models = array_fill('x'::text, ARRAY[101])
consumer_key consumer_key_budget_check | id = gen_random_uuid(), hash = sha256('x'), budget = -1,
	budget_period = 'day'
consumer_key consumer_key_budget_has_a_period | id = gen_random_uuid(), hash = sha256('x'), budget = 1
consumer_key consumer_key_budget_period_check | id = gen_random_uuid(), hash = sha256('x'), budget = 1,
	budget_period = 'year'
consumer_key consumer_key_check | revoked_at = now()
consumer_key consumer_key_hash_check | hash = 'short'
consumer_key consumer_key_hash_key | id = gen_random_uuid()
consumer_key consumer_key_name_check | name = repeat('x', 65)
consumer_key consumer_key_old_hash_check | id = gen_random_uuid(), hash = sha256('x'), old_hash = 'short',
	old_prefix = '', old_until = now(), rotated_at = now()
consumer_key consumer_key_old_hash_key | ! UPDATE consumer_key SET old_hash = sha256('o'), old_prefix = '',
	old_until = now(), rotated_at = now() WHERE state = 'active'; INSERT INTO consumer_key (id, account_id, name, hash,
	prefix, old_hash, old_prefix, old_until, rotated_at) SELECT gen_random_uuid(), account_id, '', sha256('x'), '',
	sha256('o'), '', now(), now() FROM account JOIN wallet ON account_id = id LIMIT 1
consumer_key consumer_key_old_is_whole | id = gen_random_uuid(), hash = sha256('x'), old_until = now(),
	rotated_at = now()
consumer_key consumer_key_old_prefix_check | id = gen_random_uuid(), hash = sha256('x'), old_hash = sha256('o'),
	old_prefix = repeat('x', 13), old_until = now(), rotated_at = now()
consumer_key consumer_key_overlap | id = gen_random_uuid(), hash = sha256('x'), old_hash = sha256('o'), old_prefix = '',
	old_until = now() + interval '8 days', rotated_at = now()
consumer_key consumer_key_old_pepper | id = gen_random_uuid(), hash = sha256('x'), old_pepper = 999
consumer_key consumer_key_pepper | id = gen_random_uuid(), hash = sha256('x'), pepper = 999
consumer_key consumer_key_rotates | ! UPDATE consumer_key SET hash = sha256('x') WHERE state = 'active'
	=> may not change any more
consumer_key consumer_key_pkey | hash = sha256('x')
consumer_key consumer_key_prefix_check | prefix = repeat('x', 13)
consumer_key consumer_key_state_check | state = 'gone'
consumer_key revoked_for_ever | ! UPDATE consumer_key SET state = 'active', revoked_at = NULL WHERE state = 'revoked'
	=> may not change any more
entry entry_balances | id = gen_random_uuid(), business_id = 'x'
entry entry_business_id_check | business_id = ''
entry entry_day_open | ! SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'goodwill', 'x') => read committed only
entry entry_id_kind_key | ! ALTER TABLE entry DROP CONSTRAINT entry_id_kind_key => depend on it
entry entry_kind_business_id_key | id = gen_random_uuid()
entry entry_kind_fkey | id = gen_random_uuid(), kind = 'gift' => entry_kind_fkey
entry entry_memo_check | memo = repeat('x', 201)
entry entry_pkey | business_id = 'x'
entry entry_quote_asset_fkey | id = gen_random_uuid(), kind = 'gas', quote_asset = '1:doge', quote_rate = 5,
	quote_source = 'x', quote_at = now()
entry entry_quote_complete | kind = 'gas', quote_asset = '254:native'
entry entry_quote_rate_check | kind = 'gas', quote_asset = '254:native', quote_rate = 0, quote_source = 'x',
	quote_at = now()
entry entry_quote_source_check | kind = 'gas', quote_asset = '254:native', quote_rate = 5, quote_source = '',
	quote_at = now()
entry entry_recorded_now | id = gen_random_uuid(), business_id = 'x', at = now() - interval '1 day'
	=> may not change any more
entry entry_refunds_once | ! INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'request_refund', 'twice'), (gen_random_uuid(), 'goodwill_refund', 'twice')
entry entry_reversal | kind = 'reversal'
entry entry_reverses_fkey | ! WITH u AS (SELECT gen_random_uuid() AS id) INSERT INTO entry (id, kind, business_id,
	reverses) SELECT gen_random_uuid(), 'reversal', id::text, id FROM u
entry entry_reverses_key | ! INSERT INTO entry (id, kind, business_id, reverses) SELECT gen_random_uuid(), 'reversal',
	id::text, id FROM entry, generate_series(1, 2) WHERE kind = 'goodwill' => entry_
entry_kind entry_kind_line_check | kind = 'gift', line = 28
entry_kind entry_kind_pkey | =
held_earning held_earning_account_id_fkey | request_id = gen_random_uuid(), account_id = gen_random_uuid()
held_earning held_earning_begins_free | ! INSERT INTO held_earning (request_id, day, account_id, provider_id, rule,
	book, payout, withheld) SELECT gen_random_uuid(), day, account_id, provider_id, rule, book, payout, true
	FROM held_earning => may not change any more
held_earning held_earning_stays_withheld | ! UPDATE held_earning SET withheld = true;
	UPDATE held_earning SET withheld = false => may not change any more
held_earning held_earning_withheld_by_close | ! UPDATE held_earning SET book = '2000-01', withheld = true
held_earning held_earning_begins_held | ! INSERT INTO held_earning SELECT gen_random_uuid(), day, account_id,
	provider_id, rule, book, payout, held_at, 'released', now(), 'x' FROM held_earning => may not change any more
held_earning held_earning_ended_as_check | ! UPDATE held_earning SET ended_as = 'gone', ended_at = now(), reason = 'x'
held_earning held_earning_day_open | ! SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
	UPDATE held_earning SET ended_as = 'released', ended_at = now(), reason = 'x' => read committed
held_earning held_earning_ends_now | ! UPDATE held_earning SET ended_as = 'released',
	ended_at = now() - interval '1 day', reason = 'x' => may not change any more
held_earning held_earning_ends_once | ! UPDATE held_earning SET ended_as = 'released', ended_at = now(),
	reason = 'x'; UPDATE held_earning SET ended_as = NULL, ended_at = NULL, reason = NULL => may not change any more
held_earning held_earning_ends_whole | ! UPDATE held_earning SET ended_as = 'released'
held_earning held_earning_payout_check | request_id = gen_random_uuid(), payout = 0
held_earning held_earning_pkey | =
held_earning held_earning_reason_check | ! UPDATE held_earning SET ended_as = 'released', ended_at = now(),
	reason = ''
held_earning held_earning_rule_check | request_id = gen_random_uuid(), rule = 'looks'
held_earning held_earning_was_earned | request_id = gen_random_uuid()
house_account house_account_account_id_fkey | account_id = gen_random_uuid()
house_account house_account_pkey | =
hold hold_is_sound | amount = -1 => hold_amount_check
hold hold_is_kept | ! DELETE FROM hold => before its day is cleared
hold hold_begins_open | state = 'released', closed_at = now() => may not change any more
hold hold_is_sound | billing_type = 'gift', amount = 0 => hold_billing_type
hold hold_is_sound | payout_input_rate = input_rate + 1 => hold_check
hold hold_is_sound | payout_output_rate = output_rate + 1 => hold_check1
hold hold_is_sound | billing_type = 'free', input_rate = 0, output_rate = 0, payout_input_rate = 0,
	payout_output_rate = 0, amount = 5 => hold_check2
hold hold_is_sound | closed_at = now() => hold_check4
hold hold_is_sound | expires_at = admitted_at => hold_check5
hold hold_closes_once | ! UPDATE hold SET state = 'open', closed_at = NULL WHERE state = 'settled'
	=> may not change any more
hold hold_is_sound | unit = 2, max_completion_tokens = 0 => hold_counts_audio
hold hold_is_sound | unit = 1, input_rate = 0, payout_input_rate = 0, prompt_tokens = 0,
	max_completion_tokens = 3, images = 4 => hold_counts_images
hold hold_expires_reviewed | ! UPDATE hold SET state = 'expired', closed_at = now() WHERE state = 'open'
	=> is to be reviewed
hold hold_is_sound | billing_type = 'free', amount = 0 => hold_free_is_free
hold hold_is_sound | images = -1 => hold_images_check
hold hold_is_sound | input_rate = -1, payout_input_rate = -1 => hold_input_rate_check
hold hold_is_sound | max_completion_tokens = -1 => hold_max_completion_tokens_check
hold hold_is_sound | model_id = '' => hold_model_id_check
hold hold_is_sound | output_rate = -1, payout_output_rate = -1 => hold_output_rate_check
hold hold_is_sound | pinned = true, billing_type = 'free', amount = 0, input_rate = 0, output_rate = 0,
	payout_input_rate = 0, payout_output_rate = 0 => hold_pin_is_payg
hold hold_pkey | =
hold hold_is_sound | billing_type = 'plan', amount = 0 => hold_plan_is_pinned
hold hold_is_sound | billing_type = 'plan', amount = 0, plan_id = 'pro', plan_tier = 2, plan_day = now()::date,
	plan_price = -1 => hold_plan_price_check
hold hold_is_sound | prompt_tokens = -1 => hold_prompt_tokens_check
hold hold_is_sound | rate_limit = -1 => hold_rate_limit_check
hold hold_is_sound | rate_remaining = -1 => hold_rate_remaining_check
hold hold_is_sound | plan_refunded = true => hold_refund
hold hold_is_sound | unit = 3 => hold_unit_check
hold hold_is_sound | ! UPDATE hold SET state = 'gone', closed_at = now() WHERE state = 'open'
	=> hold_state_check
idempotency_account idempotency_account_account_id_fkey | account_id = gen_random_uuid()
idempotency_account idempotency_account_live_check | account_id = (SELECT id FROM account
	WHERE idempotency_key = 'taken'), live = -1
idempotency_account idempotency_account_pkey | =
idempotency_claim idempotency_claim_kept_slot_check | token_sha256 = sha256('x'), state = 'answered', kept_slot = 26
idempotency_claim idempotency_claim_answer | state = 'answered', token_sha256 = sha256('x')
idempotency_claim idempotency_claim_comes | ! UPDATE idempotency_quota SET live = 10000; INSERT INTO idempotency_claim
	SELECT key_id, sha256('x'), request_sha256, request_id, state, leased_until, expires_at, sealed, kept_slot
	FROM idempotency_claim => idempotency_quota_live_check
idempotency_claim idempotency_claim_ends_once | ! UPDATE idempotency_claim SET state = 'not_kept',
	sealed = NULL; UPDATE idempotency_claim SET state = 'running' => may not change any more
idempotency_claim idempotency_claim_goes | ! UPDATE idempotency_quota SET live = 0; DELETE FROM idempotency_claim
	=> idempotency_quota_live_check
idempotency_claim idempotency_claim_key_id_fkey | key_id = gen_random_uuid()
idempotency_claim idempotency_claim_pkey | =
idempotency_claim idempotency_claim_request_sha256_check | request_sha256 = 'short'
idempotency_claim idempotency_claim_sealed_check | state = 'answered', sealed = repeat('x', 1052673)::bytea
idempotency_claim idempotency_claim_state_check | state = 'gone'
idempotency_claim idempotency_claim_token_sha256_check | token_sha256 = 'short'
idempotency_quota idempotency_quota_key_id_fkey | key_id = gen_random_uuid()
idempotency_quota idempotency_quota_live_check | live = 10001
idempotency_quota idempotency_quota_pkey | =
key_inflight key_inflight_bounds | n = -1
key_inflight key_inflight_key_id_fkey | key_id = gen_random_uuid()
key_inflight key_inflight_pkey | =
account_rate account_rate_account_id_fkey | account_id = gen_random_uuid()
account_rate account_rate_class_check | class = 3
account_rate account_rate_pkey | =
key_rate key_rate_class_check | class = 7
key_rate key_rate_pkey | =
operator_action operator_action_action_check | action = 'steal'
operator_action operator_action_actor_check | actor = 'operator:<b>'
operator_action operator_action_detail_check | detail = '[]'::jsonb
operator_action operator_action_pkey | ! INSERT INTO operator_action OVERRIDING SYSTEM VALUE SELECT *
	FROM operator_action
operator_action operator_action_stays | ! UPDATE operator_action SET actor = 'operator' => may not change any more
operator_action operator_action_stays_all | ! TRUNCATE operator_action => may not change any more
orphan_review orphan_review_counts_up | ! UPDATE orphan_review SET publications = publications + 2
	=> may not change any more
orphan_review orphan_review_is_kept | ! DELETE FROM orphan_review => before its day is cleared
orphan_review orphan_review_pkey | =
orphan_review orphan_review_publications_check | publications = 14
plan plan_id_check | id = 'Not a name'
plan plan_pkey | =
plan_counter plan_counter_account_id_fkey | account_id = gen_random_uuid()
plan_counter plan_counter_cap_check | cap = -1, excess = 9
plan_counter plan_counter_check | period = 'month', window_start = '2026-03-02'
plan_counter plan_counter_excess_check | excess = -1
plan_counter plan_counter_kind_check | kind = 'smiles'
plan_counter plan_counter_period_check | period = 'year', window_start = '2026-01-01'
plan_counter plan_counter_pkey | =
plan_counter plan_counter_used_check | used = -1
plan_counter plan_counter_within_cap | used = cap + excess + 1
plan_gate plan_gate_account_id_fkey | account_id = gen_random_uuid()
plan_gate plan_gate_bounds | open = -1
plan_gate plan_gate_pkey | =
plan_limit plan_limit_cap_check | ! UPDATE plan_limit SET cap = -1
plan_limit plan_limit_check | plan_id = 'new', unit = 'smile'
plan_limit plan_limit_check1 | plan_id = 'new', kind = 'concurrent', unit = 'request', period = 'day'
plan_limit plan_limit_check2 | plan_id = 'new', kind = 'tokens', unit = 'token', period = 'minute'
plan_limit plan_limit_check3 | plan_id = 'new', kind = 'requests', unit = 'request', period = 'minute',
	tiers = '{1}'::smallint[]
plan_limit plan_limit_draws | plan_id = 'new', draws = '{4}'::smallint[]
plan_limit plan_limit_period_check | plan_id = 'new', kind = 'requests', unit = 'request', period = 'year'
plan_limit plan_limit_pkey | ! INSERT INTO plan_limit SELECT 'new', 'tokens', 'week', 'token', 5, true, '{2}'
	FROM generate_series(1, 2)
plan_limit plan_limit_plan_id_fkey | plan_id = 'none'
plan_limit plan_limit_tiers_check | plan_id = 'new', kind = 'tokens', unit = 'token', period = 'week',
	tiers = '{4}'::smallint[]
plan_limit plan_limits_are_whole | period = 'month' => takes no further limit
plan_limit plan_limits_keep_their_form | ! UPDATE plan_limit SET tiers = '{3}' => may not change any more
plan_limit plan_limits_keep_their_form | ! UPDATE plan_limit SET draws = '{2, 1}' => may not change any more
plan_limit plan_limits_stay | ! DELETE FROM plan_limit => may not change any more
posting held_earnings_stay | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'earnings_batch', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg,
	entry_kind, account_kind, account_owned, owner_id, amount)
	SELECT id, leg, kind, account_kind, true, provider_id, amount
	FROM e, held_earning, (VALUES (1, 'l:provider:accrued', -1), (2, 'l:provider:payable', 1)) AS l (leg,
	account_kind,
	amount)
posting provider_never_short | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'payout_requested', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg,
	entry_kind, account_kind, account_owned, owner_id, amount) SELECT id, leg, kind, account_kind, owned,
	CASE WHEN owned THEN provider_id END, amount FROM e, held_earning,
	(VALUES (1, 'l:provider:payable', true, -1), (2, 'l:provider:payout_in_flight', true, 1)) AS l (leg,
	account_kind, owned, amount)
posting debt_never_overpaid | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'card_debt_lost', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg,
	entry_kind, account_kind, account_owned, owner_id, amount) SELECT id, leg, kind, account_kind, owned,
	CASE WHEN owned THEN provider_id END, amount FROM e, held_earning,
	(VALUES (1, 'e:chargeback', false, -1), (2, 'a:consumer_receivable', true, 1)) AS l (leg, account_kind,
	owned, amount)
posting payout_ends_its_request | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'payout_failed', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg,
	entry_kind, account_kind, account_owned, owner_id, amount) SELECT id, leg, kind, account_kind, owned,
	CASE WHEN owned THEN provider_id END, amount FROM e, held_earning,
	(VALUES (1, 'l:provider:payout_in_flight', true, -1), (2, 'l:provider:payable', true, 1)) AS l (leg,
	account_kind, owned, amount)
posting collateral_refund_fails | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'collateral_refund_failed', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg,
	entry_kind, account_kind, account_owned, owner_id, amount) SELECT id, leg, kind, account_kind, owned,
	CASE WHEN owned THEN provider_id END, amount FROM e, held_earning,
	(VALUES (1, 'a:card_clearing', false, -1), (2, 'l:provider:collateral_refund_pending', true, 1)) AS l (leg,
	account_kind, owned, amount)
posting collateral_refund_ends | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'collateral_refund_undone', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg,
	entry_kind, account_kind, account_owned, owner_id, amount) SELECT id, leg, kind, account_kind, owned,
	CASE WHEN owned THEN provider_id END, amount FROM e, held_earning,
	(VALUES (1, 'l:provider:collateral_refund_pending', true, -1), (2, 'l:provider:payable', true, 1)) AS l (leg,
	account_kind, owned, amount)
posting slash_ends_once | ! WITH l (kind, leg, account_kind, owned, amount) AS (VALUES
	('collateral_card', 1, 'a:card_clearing', false, -2), ('collateral_card', 2, 'l:provider:collateral', true, 2),
	('slash', 1, 'l:provider:collateral', true, -2), ('slash', 2, 'l:provider:slash_escrow', true, 2),
	('slash_forfeit', 1, 'l:provider:slash_escrow', true, -1), ('slash_forfeit', 2, 'r:slash', false, 1),
	('slash_appeal_won', 1, 'l:provider:slash_escrow', true, -1), ('slash_appeal_won', 2,
	'l:provider:collateral', true, 1)),
	e AS (INSERT INTO entry (id, kind, business_id) SELECT gen_random_uuid(), kind, 'x' FROM (SELECT DISTINCT
	kind FROM l) k
	RETURNING id, kind) INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
	SELECT id, leg, kind, account_kind, owned, CASE WHEN owned THEN provider_id END, amount
	FROM e JOIN l USING (kind), held_earning => entry_ends_once
posting plan_pool_is_open | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'plan_sale', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg, entry_kind,
	account_kind, account_owned, book, amount) SELECT id, 1, kind, 'l:plan_pool', false, '2000-01', 1 FROM e
posting withheld_ends_as_ruled | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'plan_unclaimed', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg, entry_kind,
	account_kind, account_owned, book, amount) SELECT id, leg, kind, account_kind, false, book, amount
	FROM e, (VALUES (1, 'x:plan_accrual', '2000-01', -1), (2, 'r:plan', '', 1)) AS l (leg, account_kind, book, amount)
posting revaluation_is_known | ! WITH e AS (INSERT INTO entry (id, kind, business_id, quote_asset, quote_rate,
	quote_source, quote_at) VALUES (gen_random_uuid(), 'revaluation', 'x', '254:native', 5, 'x', now())
	RETURNING id, kind) INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, book, amount)
	SELECT id, leg, kind, account_kind, false, book, amount FROM e, (VALUES (1, 'a:crypto', '254:native', -1),
	(2, 'e:fx_revaluation', '', 1)) AS l (leg, account_kind, book, amount) => revaluation_is_posted
posting verification_funds_house_accounts | ! WITH a AS (INSERT INTO account (id, name)
	VALUES (gen_random_uuid(), 'x') RETURNING id), e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'verification', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg,
	entry_kind, account_kind, account_owned, owner_id, amount) SELECT e.id, 1, kind, 'l:consumer:available', true, a.id, 1
	FROM e, a
posting playground_funds_its_account | ! WITH e AS (INSERT INTO entry (id, kind, business_id)
	VALUES (gen_random_uuid(), 'playground', 'x') RETURNING id, kind) INSERT INTO posting (entry_id, leg,
	entry_kind, account_kind, account_owned, owner_id, amount) SELECT e.id, leg, kind, account_kind, owned,
	CASE WHEN owned THEN a.id END, amount FROM e, (VALUES (1, 'e:playground', false, -1),
	(2, 'l:consumer:available', true, 1)) AS l (leg, account_kind, owned, amount), account a WHERE a.name = 'other'
posting posting_account_fkey | leg = 3, book = '2026-03', account_kind = account_kind => posting_account_fkey
posting posting_amount_bounds | amount = 500000000000000001
posting posting_amount_check | amount = 0
posting posting_asset_fkey | leg = 3, asset = '1:doge' => fkey
posting posting_asset_in_book | asset = '254:native', book = '2026-03'
posting posting_balances | leg = 3 => entry_balances
posting posting_book_asset_fkey | leg = 3, book = '1:doge' => fkey
posting posting_book_check | book = 'kitchen'
posting posting_check | owner_id = NULL, account_owned = true
posting posting_entry_id_entry_kind_fkey | entry_id = gen_random_uuid()
posting posting_leg_check | leg = 17
posting posting_pkey | =
posting posting_rule_fkey | leg = 3, amount = -amount
posting_rule posting_rule_account_kind_fkey | account_kind = 'l:none'
posting_rule posting_rule_entry_kind_fkey | entry_kind = 'gift'
posting_rule posting_rule_pkey | =
posting_rule posting_rule_side_check | side = 'left'
posting_rule posting_rule_unit_check | unit = 'goat'
quarantine quarantine_detail_check | detail = repeat('x', 501)
quarantine quarantine_payload_check | payload = repeat('x', 65537)::bytea
quarantine quarantine_payload_hash_check | payload_hash = 'short'
quarantine quarantine_payload_hash_reason_key | =
quarantine quarantine_pkey | ! INSERT INTO quarantine OVERRIDING SYSTEM VALUE SELECT * FROM quarantine
quarantine quarantine_reason_check | reason = 'disliked'
work_receipt work_receipt_attempt_check | attempt = 0
work_receipt work_receipt_claim | claimed_prompt = NULL
work_receipt work_receipt_claimed_completion_check | claimed_completion = -1
work_receipt work_receipt_claimed_prompt_check | claimed_prompt = -1
work_receipt work_receipt_hub_id_check | hub_id = repeat('x', 65)
work_receipt work_receipt_model_id_check | model_id = ''
work_receipt work_receipt_pkey | =
work_receipt work_receipt_proof_check | proof = ''
work_receipt work_receipt_public_key_check | public_key = 'short'
work_receipt work_receipt_sent_bytes_check | sent_bytes = 0
work_receipt work_receipt_sent_tokens_check | sent_tokens = 0
work_receipt work_receipt_signature_check | signature = 'short'
work_receipt work_receipt_is_kept | ! DELETE FROM work_receipt => before its day is cleared
work_receipt work_receipt_stands | ! UPDATE work_receipt SET sent_tokens = 99 => may not change any more
renewal renewal_check | provider_id = NULL
renewal renewal_check1 | committed_attempt = 0, provider_id = NULL
renewal renewal_committed_attempt_check | committed_attempt = -1, provider_id = NULL, relayed_tokens = 0,
	relayed_bytes = 0 => renewal_
renewal renewal_hub_id_check | hub_id = repeat('x', 65)
renewal renewal_is_kept | ! DELETE FROM renewal => before its day is cleared
renewal renewal_only_grows | ! UPDATE renewal SET relayed_tokens = relayed_tokens - 1 => may not change any more
renewal renewal_pkey | =
renewal renewal_relayed_bytes_check | relayed_bytes = -1
renewal renewal_relayed_tokens_check | relayed_tokens = -1
revaluation revaluation_changes | token = '1:eth', entry_id = gen_random_uuid(), worth = booked
revaluation revaluation_entry_id_key | token = '1:eth'
revaluation revaluation_is_posted | token = '1:eth', entry_id = gen_random_uuid()
revaluation revaluation_of_its_day | day = day - 1, entry_id = gen_random_uuid()
revaluation revaluation_pkey | entry_id = gen_random_uuid()
revaluation revaluation_token_fkey | token = '1:doge', entry_id = gen_random_uuid()
seal seal_check | entries = 5, postings = 9
seal seal_day_fkey | day = day + 1, previous = root, root = @root(root, day + 1)
seal seal_day_root_key | ! ALTER TABLE seal DROP CONSTRAINT seal_day_root_key => depend on it
seal seal_digest_check | digest = 'short'
seal seal_entries_check | entries = -1
seal seal_follows | day = day - 10, previous = sha256('x'), root = @root(sha256('x'), day - 10)
seal seal_first | day = day - 10, previous = NULL, root = @root(NULL, day - 10)
seal seal_lines_check | lines = -1
seal seal_pkey | =
seal seal_root | root = sha256('x')
seal seal_version_check | version = 4 => seal_
usage_settlement day_of_request | day = day + 1
usage_settlement free_costs_nothing | source = 'free', charged = 0, shortfall = 0
usage_settlement only_payg_is_charged | source = 'orphan'
usage_settlement payg_is_charged | charged = charged - 1,
	request_id = overlay(request_id::text placing '00' from 35)::uuid => are not the list price
usage_settlement usage_settlement_connection_mode_check | connection_mode = -1
usage_settlement usage_settlement_discount_check | discount = -1, charged = charged + 1
usage_settlement payout_within_list_price | payout = list_price + 1
usage_settlement usage_counts_audio | unit = 2, output_rate = 0, payout_output_rate = 0
usage_settlement usage_counts_images | unit = 1
usage_settlement usage_settlement_unit_check | unit = -1
usage_settlement usage_day_open | ! SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; INSERT INTO
	usage_settlement (day,
	request_id) SELECT day, request_id FROM usage_settlement WHERE false => read committed only
usage_settlement usage_recorded_now | settled_at = now() - interval '1 day' => may not change any more
usage_settlement usage_settlement_attempt_check | attempt = 0
usage_settlement usage_settlement_charged_check | charged = -1, shortfall = list_price + 1
usage_settlement usage_settlement_claim_state_check | claim_state = 'odd'
usage_settlement usage_settlement_completion_tokens_check | completion_tokens = -1
usage_settlement usage_settlement_ending_check | ending = 'happy'
usage_settlement usage_settlement_payload_hash_check | payload_hash = 'short'
usage_settlement usage_settlement_pkey | = => _pkey
usage_settlement usage_settlement_prompt_tokens_check | prompt_tokens = -1
usage_settlement usage_settlement_route_mode_check | route_mode = 'odd'
usage_settlement usage_settlement_shortfall_check | shortfall = -1, charged = list_price + 1
usage_settlement usage_settlement_source_check | source = 'gift', charged = 0
usage_settlement usage_settlement_evidence_source_check | evidence_source = 'nobody'
ledger_secret ledger_secret_one_check | one = false
ledger_secret ledger_secret_pkey | =
ledger_secret ledger_secret_secret_check | secret = 'short'
usage_key usage_key_bound | ! INSERT INTO usage_key (hub_id, key_id, secret) SELECT hub_id, int8send(n), secret
	FROM usage_key, generate_series(1, 300) AS n
usage_key usage_key_hub_id_check | hub_id = 'Hub.1'
usage_key usage_key_key_id_check | key_id = 'short'
usage_key usage_key_pkey | =
usage_key usage_key_secret_check | secret = 'short'
void_attempt void_attempt_attempt_check | attempt = 0
void_attempt void_attempt_hub_id_check | hub_id = ''
void_attempt void_attempt_is_kept | ! DELETE FROM void_attempt => may not change any more
void_attempt void_attempt_pkey | =
void_attempt void_attempt_stands | ! UPDATE void_attempt SET hub_id = 'x' => may not change any more
sign_in_attempt sign_in_attempt_email_sha256_check | email_sha256 = 'short'
sign_in_attempt sign_in_attempt_made_at_check | email_sha256 = sha256('x'), made_at = array_fill(now(), ARRAY[101]),
	networks = array_fill(sha256('n'), ARRAY[101])
sign_in_attempt sign_in_attempt_pairs | email_sha256 = sha256('x'), made_at = array_fill(now(), ARRAY[1])
sign_in_attempt sign_in_attempt_pkey | =
sign_in_count sign_in_count_email_sha256_check | email_sha256 = 'short'
sign_in_count sign_in_count_network_check | network = 'short'
sign_in_count sign_in_count_pkey | =
known_network known_network_bound | ! INSERT INTO known_network SELECT user_id, sha256(n::text::bytea), now()
	FROM known_network, generate_series(1, 8) AS n => at most 8 known networks
known_network known_network_network_check | network = 'short'
known_network known_network_pkey | =
known_network known_network_user_id_fkey | user_id = gen_random_uuid()
user_session user_session_bound | ! INSERT INTO user_session (token_sha256, user_id, expires_at)
	SELECT sha256(n::text::bytea), user_id, expires_at FROM user_session, generate_series(1, 32) AS n
	=> at most 32 sessions
user_session user_session_is_short | token_sha256 = sha256('x'), expires_at = now() + interval '16 minutes'
user_session user_session_pkey | expires_at = now() + interval '1 minute'
user_session user_session_stands | ! UPDATE user_session SET expires_at = expires_at => may not change any more
user_session user_session_token_sha256_check | token_sha256 = 'short', expires_at = now() + interval '1 minute'
user_session user_session_user_id_fkey | token_sha256 = sha256('x'), user_id = gen_random_uuid(),
	expires_at = now() + interval '1 minute'
wallet wallet_account_id_fkey | account_id = gen_random_uuid()
wallet wallet_bounds | held = posted + 1
wallet wallet_ceiling | posted = 1000000000000000001
wallet wallet_pkey | =
request_report request_report_attempts_check | attempts = '{}'::jsonb
request_report request_report_committed_attempt_check | committed_attempt = -1
request_report request_report_continues_another | continued_as = request_id
request_report request_report_error_code_check | error_code = repeat('x', 65)
request_report request_report_fallback_reason_check | fallback_reason = repeat('x', 65)
request_report request_report_first_content_ms_check | first_content_ms = -1
request_report request_report_http_status_check | http_status = 600
request_report request_report_hub_id_check | hub_id = repeat('x', 65)
request_report request_report_is_kept | ! DELETE FROM request_report => before its day is cleared
request_report request_report_metered | metered_prompt = 1
request_report request_report_metered_completion_check | metered_prompt = 1, metered_completion = -1
request_report request_report_metered_prompt_check | metered_prompt = -1, metered_completion = 1
request_report request_report_outcome_check | outcome = 'bliss'
request_report request_report_pkey | =
request_report request_report_provider | provider_id = gen_random_uuid(), committed_attempt = 0
request_report request_report_relayed_bytes_check | relayed_bytes = -1
request_report request_report_relayed_tokens_check | relayed_tokens = -1
request_report request_report_requested_provider_check | requested_provider = repeat('x', 65)
request_report request_report_route_mode_check | route_mode = 'odd'
request_report request_report_total_ms_check | total_ms = -1
`
