-- A run of a calibration ends once.
CREATE OR REPLACE FUNCTION calibration_run_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'running' THEN
            RAISE EXCEPTION 'a run begins as running' USING ERRCODE = 'check_violation';
        END IF;
        NEW.started_at := clock_timestamp();
        RETURN NEW;
    ELSIF (NEW.run_id, NEW.stratum, NEW.started_at) IS DISTINCT FROM (OLD.run_id, OLD.stratum, OLD.started_at)
        OR OLD.state <> 'running' OR NEW.state = 'running'
    THEN
        RAISE EXCEPTION 'a run ends once and stays' USING ERRCODE = 'check_violation';
    END IF;
    NEW.ended_at := clock_timestamp();
    RETURN NEW;
END $$;
