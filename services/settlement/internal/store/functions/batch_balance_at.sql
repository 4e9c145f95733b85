-- The balance of an account at the end of a day; zero for one that has not moved yet.
CREATE OR REPLACE FUNCTION batch_balance_at(p_provider uuid, p_account text, p_month text, p_day date) RETURNS bigint
LANGUAGE sql STABLE SET search_path = settlement, pg_temp AS $$
    SELECT coalesce((SELECT b.balance FROM batch_balance b WHERE b.provider_id = p_provider AND b.account = p_account
        AND b.month = p_month AND b.day <= p_day ORDER BY b.day DESC LIMIT 1), 0)
$$;
