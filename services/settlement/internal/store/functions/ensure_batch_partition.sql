-- ensure_batch_partition makes the partition of a day's month, if there is none. It runs as the owner, because the
-- application's role may not create tables.
CREATE OR REPLACE FUNCTION ensure_batch_partition(p_day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = settlement, pg_temp AS $$
DECLARE
    v_first date := date_trunc('month', p_day)::date;
    v_name  text := 'batch_line_' || to_char(p_day, 'YYYYMM');
BEGIN
    IF p_day NOT BETWEEN date '2000-01-01' AND (now() AT TIME ZONE 'UTC')::date THEN
        RAISE EXCEPTION 'no batch has the day %', p_day;
    END IF;
    IF to_regclass(v_name) IS NOT NULL THEN
        RETURN;
    END IF;
    -- One at a time; the others find the work done.
    PERFORM pg_advisory_xact_lock(hashtext('settlement.ensure_batch_partition'));
    IF to_regclass(v_name) IS NULL THEN
        EXECUTE format('CREATE TABLE %I PARTITION OF batch_line FOR VALUES FROM (%L) TO (%L)', v_name, v_first,
            (v_first + interval '1 month')::date);
    END IF;
END $$;

REVOKE ALL ON FUNCTION ensure_batch_partition FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_batch_partition TO svc_settlement;
