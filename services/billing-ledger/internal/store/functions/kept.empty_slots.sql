-- empty_slots empties the slots whose last answer is a day old in an hour, and
-- returns how many. A slot that is read for longer than p_patience, as a dump of
-- the database does, is left for the next time: everybody who comes later would
-- wait behind whoever waits for the reader.
CREATE OR REPLACE FUNCTION kept.empty_slots(p_hour bigint, p_patience text) RETURNS integer
    LANGUAGE plpgsql SET search_path = kept, pg_temp AS $$
DECLARE
    v_patience text := current_setting('lock_timeout');
    v_slot     smallint;
    v_emptied  integer := 0;
BEGIN
    FOR v_slot IN SELECT slot FROM hour WHERE hour < p_hour - 24 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', p_patience, true);
            EXECUTE format('TRUNCATE answer_%s, tally_%s', v_slot, v_slot);
            PERFORM set_config('lock_timeout', v_patience, true);
            DELETE FROM hour WHERE slot = v_slot;
            v_emptied := v_emptied + 1;
        EXCEPTION WHEN lock_not_available THEN
            NULL; -- and lock_timeout is as it was
        END;
    END LOOP;
    RETURN v_emptied;
END $$;

REVOKE ALL ON FUNCTION kept.empty_slots FROM PUBLIC;
