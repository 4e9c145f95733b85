-- admit is admit_requests for programs that know neither discounts nor priorities.
CREATE OR REPLACE FUNCTION admit(
    p_request uuid[], p_key uuid[], p_model text[], p_class smallint[], p_zero boolean[], p_billing text[],
    p_amount bigint[], p_prompt bigint[], p_completion bigint[], p_pinned boolean[], p_price uuid[],
    p_tier smallint[], p_images integer[], p_input bigint[], p_output bigint[], p_payout_input bigint[], p_payout_output bigint[],
    p_unit smallint[], p_rates integer[], p_concurrent integer, p_ttl interval)
RETURNS TABLE (
    o_ord integer, o_outcome text, o_account uuid, o_billing text, o_amount bigint, o_price uuid,
    o_input bigint, o_output bigint, o_payout_input bigint, o_payout_output bigint, o_unit smallint,
    o_limit integer, o_remaining integer, o_reset_at timestamptz, o_retry_at timestamptz, o_expires_at timestamptz, o_now timestamptz)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT a.o_ord, a.o_outcome, a.o_account, a.o_billing, a.o_amount, a.o_price, a.o_input, a.o_output,
            a.o_payout_input, a.o_payout_output, a.o_unit, a.o_limit, a.o_remaining, a.o_reset_at, a.o_retry_at,
            a.o_expires_at, a.o_now
        FROM admit_requests(p_request, p_key, p_model, p_class, p_zero, p_billing, p_amount, p_prompt, p_completion,
            p_pinned, p_price, p_tier, p_images, p_input, p_output, p_payout_input, p_payout_output, p_unit, p_rates,
            p_concurrent, p_ttl) a;
END $$;
