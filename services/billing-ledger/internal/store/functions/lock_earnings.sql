-- Those who take from the same earnings wait for each other. The owners are divided into
-- 1,024 parts, because a month may close with more owners than a transaction may have
-- locks. The parts are locked in order, so that nobody waits in a circle.
CREATE OR REPLACE FUNCTION lock_earnings(p_owners uuid[]) RETURNS void LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('billing.earnings'), part)
        FROM (SELECT DISTINCT (hashtextextended(owner_id::text, 0) & 1023)::integer AS part
            FROM unnest(p_owners) AS u (owner_id) ORDER BY part) parts;
END $$;
