-- Readers keep what waits in memory, and a replica applies all that is due in turn.
CREATE OR REPLACE FUNCTION model_change_bound() RETURNS trigger
LANGUAGE plpgsql SET search_path = catalog, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM model_change WHERE state = 'scheduled') > 1000 THEN
        RAISE EXCEPTION 'too many scheduled changes wait'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'model_change_waiting_bound';
    END IF;
    RETURN NULL;
END $$;
