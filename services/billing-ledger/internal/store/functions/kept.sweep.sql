-- sweep empties the slots whose last answer is a day old, and returns how many.
CREATE OR REPLACE FUNCTION kept.sweep() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = kept, pg_temp SET jit = off SET enable_seqscan = off AS $$
DECLARE
    v_hour bigint := floor(extract(epoch FROM clock_timestamp()) / 3600);
BEGIN
    IF NOT EXISTS (SELECT FROM hour WHERE hour < v_hour - 24) THEN
        RETURN 0;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('kept.answer'));
    RETURN empty_slots(v_hour, '50ms');
END $$;

REVOKE ALL ON FUNCTION kept.sweep FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kept.sweep TO svc_billing;
