-- Challenges count while their run goes on: who ends it waits for them.
CREATE OR REPLACE FUNCTION calibration_part_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    PERFORM FROM calibration_run r WHERE r.run_id = NEW.run_id AND r.state = 'running' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a run that has ended takes no more' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'calibration_run_running';
    END IF;
    RETURN NEW;
END $$;
