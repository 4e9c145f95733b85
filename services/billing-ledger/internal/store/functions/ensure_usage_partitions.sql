-- ensure_usage_partitions makes the partitions of a span of days around today
-- and returns how many it made. It runs as the owner, because the application
-- role may not create tables. A partition is built apart and then attached,
-- which does not lock out writers of the others. A day that already has rows
-- in the default partition stays there.
CREATE OR REPLACE FUNCTION ensure_usage_partitions(p_back integer, p_ahead integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = billing, pg_temp AS $$
DECLARE
    v_today date := (now() AT TIME ZONE 'UTC')::date;
    v_day   date;
    v_name  text;
    v_made  integer := 0;
BEGIN
    IF p_back NOT BETWEEN 0 AND 31 OR p_ahead NOT BETWEEN 0 AND 31 THEN
        RAISE EXCEPTION 'a span of % days back and % ahead is out of range', p_back, p_ahead;
    END IF;
    -- One at a time; the others find the work done.
    PERFORM pg_advisory_xact_lock(hashtext('billing.ensure_usage_partitions'));
    PERFORM set_config('lock_timeout', '2s', true);
    FOR i IN -p_back .. p_ahead LOOP
        v_day := v_today + i;
        v_name := 'usage_settlement_' || to_char(v_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(v_name) IS NOT NULL;
        CONTINUE WHEN EXISTS (SELECT FROM usage_settlement_default WHERE day = v_day);
        EXECUTE format('CREATE TABLE %I (LIKE usage_settlement INCLUDING ALL)', v_name);
        EXECUTE format('ALTER TABLE usage_settlement ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            v_name, v_day, v_day + 1);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END $$;

REVOKE ALL ON FUNCTION ensure_usage_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_usage_partitions TO svc_billing;
