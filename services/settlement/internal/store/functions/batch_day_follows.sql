-- Days follow each other without a gap, and are committed in their order. What is known of a day stays. A day is
-- committed with batches whose totals are those of their shares.
CREATE OR REPLACE FUNCTION batch_day_follows() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.committed_at IS NOT NULL OR NEW.day <> (SELECT max(day) + 1 FROM batch_day) THEN
            RAISE EXCEPTION 'a day follows the day before' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (OLD.day, OLD.seal, OLD.lines, OLD.collected_at) IS DISTINCT FROM (NEW.day, NEW.seal, NEW.lines, NEW.collected_at)
        OR OLD.committed_at IS NOT NULL
    THEN
        RAISE EXCEPTION 'what is known of a day stays' USING ERRCODE = 'check_violation';
    ELSIF EXISTS (SELECT FROM batch_day d WHERE d.day < NEW.day AND d.committed_at IS NULL) THEN
        RAISE EXCEPTION 'days are committed in their order' USING ERRCODE = 'check_violation';
    ELSIF EXISTS (SELECT FROM batch b CROSS JOIN LATERAL (SELECT coalesce(sum(s.amount), 0) AS total, count(*) AS shares
            FROM batch_share s WHERE s.day = b.day AND s.chain_id = b.chain_id) s
        WHERE b.day = NEW.day AND (b.total, b.shares) <> (s.total, s.shares))
    THEN
        RAISE EXCEPTION 'a batch is the sum of its shares' USING ERRCODE = 'check_violation';
    END IF;
    NEW.committed_at := clock_timestamp();
    RETURN NEW;
END $$;
