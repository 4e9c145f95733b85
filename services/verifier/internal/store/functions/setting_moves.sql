-- A setting changes one revision at a time. Penalties are turned on only where a stratum is
-- calibrated far enough for one.
CREATE OR REPLACE FUNCTION setting_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name <> OLD.name OR NEW.revision <> OLD.revision + 1 OR NEW.enabled = OLD.enabled THEN
        RAISE EXCEPTION 'a setting is turned on or off, one revision at a time' USING ERRCODE = 'check_violation';
    ELSIF NEW.name = 'penalties' AND NEW.enabled AND NOT EXISTS (SELECT FROM verifier.calibration c
        WHERE c.penal) THEN
        RAISE EXCEPTION 'nothing is calibrated far enough for a penalty'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'setting_calibrated';
    END IF;
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END $$;
