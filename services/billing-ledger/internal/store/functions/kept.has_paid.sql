-- has_paid reports whether an account ever had a deposit that somebody paid for.
CREATE OR REPLACE FUNCTION kept.has_paid(p_account uuid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = billing, pg_temp SET jit = off SET enable_seqscan = off AS $$
    SELECT EXISTS (SELECT FROM paid_deposit WHERE account_id = p_account)
$$;

REVOKE ALL ON FUNCTION kept.has_paid FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kept.has_paid TO svc_billing;
