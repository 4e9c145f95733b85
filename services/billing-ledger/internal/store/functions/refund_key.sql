-- The name of an attempt to refund, for the books and the card processor: the refund, followed
-- by the number of the attempt from the second on. ledger.RefundKey is the same.
CREATE OR REPLACE FUNCTION refund_key(refund uuid, attempt integer) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = billing, pg_temp AS $$
    SELECT CASE attempt WHEN 1 THEN refund::text ELSE refund::text || '/' || attempt END
$$;
