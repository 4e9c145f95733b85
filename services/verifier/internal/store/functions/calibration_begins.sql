-- A calibration is of the stratum of its run, which goes on until the calibration is there.
CREATE OR REPLACE FUNCTION calibration_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM verifier.calibration_run r
        WHERE r.run_id = NEW.run_id AND r.state = 'running' AND r.stratum = NEW.stratum FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a calibration is of a run that goes on' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'calibration_run_running';
    END IF;
    NEW.made_at := clock_timestamp();
    RETURN NEW;
END $$;
