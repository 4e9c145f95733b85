-- refusal is why an answer that costs so many bytes may not be kept beside those
-- of the hours since p_since, which is what a day needs unless it is given; or
-- NULL. Half of all is out of reach of those who never paid.
--
-- Plans here read few rows, whatever the planner believes of tables that nobody
-- analyzes: no sequential scan where there is an index, and no compiler.
CREATE OR REPLACE FUNCTION kept.refusal(p_account uuid, p_cost bigint, p_of_account bigint, p_in_all bigint, p_since bigint DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SET search_path = kept, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_since  bigint := coalesce(p_since, floor(extract(epoch FROM clock_timestamp()) / 3600) - 24);
    v_bytes  bigint;
    v_unpaid bigint;
BEGIN
    IF p_cost + coalesce((SELECT sum(t.bytes) FROM tally t JOIN hour h USING (slot)
        WHERE t.account_id = p_account AND h.hour >= v_since), 0) > p_of_account THEN
        RETURN 'account_full';
    END IF;
    SELECT coalesce(sum(bytes), 0), coalesce(sum(unpaid), 0) INTO v_bytes, v_unpaid FROM hour WHERE hour >= v_since;
    IF p_cost + v_bytes > p_in_all THEN
        RETURN 'store_full';
    ELSIF p_cost + v_unpaid > p_in_all / 2 AND NOT has_paid(p_account) THEN
        RETURN 'unpaid_full';
    END IF;
    RETURN NULL;
END $$;

REVOKE ALL ON FUNCTION kept.refusal FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kept.refusal TO svc_billing;
