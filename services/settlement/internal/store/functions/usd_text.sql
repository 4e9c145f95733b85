-- An amount in dollars, as package money writes it: with two decimals at least.
CREATE OR REPLACE FUNCTION usd_text(p_nano bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = settlement, pg_temp AS $$
    SELECT round(p_nano / 1000000000.0, greatest(2, scale(trim_scale(p_nano / 1000000000.0))))::text
$$;
