-- hold_is_sound reports whether a row of hold may stand, and raises the violation of the rule that it
-- breaks otherwise. All rules of single rows are here and not in CHECKs of their own, because
-- PostgreSQL reads the text of each CHECK anew in each statement: 28 of them take about 125 µs of a
-- statement that inserts one hold, and this function takes about 12. A rule says what
-- breaks it, so that null breaks none.
--
-- Whoever changes a rule checks the rows that are there, because PostgreSQL does not. Names are of
-- pg_catalog, so that no session finds others in their place.
CREATE OR REPLACE FUNCTION hold_is_sound(h record) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    broken pg_catalog.text := CASE
        WHEN h.amount < 0 THEN 'hold_amount_check'
        WHEN h.prompt_tokens < 0 THEN 'hold_prompt_tokens_check'
        WHEN h.max_completion_tokens < 0 THEN 'hold_max_completion_tokens_check'
        WHEN h.images < 0 THEN 'hold_images_check'
        WHEN h.input_rate < 0 THEN 'hold_input_rate_check'
        WHEN h.output_rate < 0 THEN 'hold_output_rate_check'
        WHEN h.payout_input_rate < 0 OR h.payout_input_rate > h.input_rate THEN 'hold_check'
        WHEN h.payout_output_rate < 0 OR h.payout_output_rate > h.output_rate THEN 'hold_check1'
        WHEN h.rate_limit < 0 THEN 'hold_rate_limit_check'
        WHEN h.rate_remaining < 0 THEN 'hold_rate_remaining_check'
        WHEN h.plan_price < 0 THEN 'hold_plan_price_check'
        WHEN pg_catalog.char_length(h.model_id) NOT BETWEEN 1 AND 255 THEN 'hold_model_id_check'
        WHEN h.unit NOT BETWEEN 0 AND 2 THEN 'hold_unit_check'
        WHEN h.discount NOT BETWEEN 0 AND 9000 THEN 'hold_discount_check'
        WHEN h.counted_class NOT IN (1, 2, 3, 5, 6) THEN 'hold_counted_class_check'
        WHEN h.spend_pins NOT BETWEEN 1 AND 63 THEN 'hold_spend_pins_check'
        WHEN pg_catalog.num_nonnulls(h.spend_day, h.spend_pins) NOT IN (0, 2) THEN 'hold_spend_is_pinned'
        WHEN h.billing_type NOT IN ('payg', 'free', 'plan') THEN 'hold_billing_type'
        WHEN h.billing_type <> 'payg' AND h.amount <> 0 THEN 'hold_check2'
        WHEN h.billing_type <> 'payg' AND h.pinned THEN 'hold_pin_is_payg'
        WHEN h.billing_type = 'free' AND (h.input_rate <> 0 OR h.output_rate <> 0) THEN 'hold_free_is_free'
        WHEN pg_catalog.num_nonnulls(h.plan_id, h.plan_tier, h.plan_day, h.plan_price)
            <> CASE h.billing_type WHEN 'plan' THEN 4 ELSE 0 END THEN 'hold_plan_is_pinned'
        WHEN h.plan_refunded AND (h.billing_type <> 'plan' OR h.state = 'open') THEN 'hold_refund'
        WHEN h.unit = 1 AND (h.input_rate <> 0 OR h.prompt_tokens <> 0 OR h.images <> h.max_completion_tokens)
            THEN 'hold_counts_images'
        WHEN h.unit = 2 AND (h.output_rate <> 0 OR h.max_completion_tokens <> 0) THEN 'hold_counts_audio'
        WHEN h.state NOT IN ('open', 'settled', 'released', 'expired') THEN 'hold_state_check'
        WHEN (h.state = 'open') <> (h.closed_at IS NULL) THEN 'hold_check4'
        WHEN h.expires_at <= h.admitted_at THEN 'hold_check5'
    END;
BEGIN
    IF broken IS NULL THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION 'new row for relation "hold" violates the rule "%"', broken
        USING ERRCODE = 'check_violation', TABLE = 'hold', CONSTRAINT = broken;
END $$;
