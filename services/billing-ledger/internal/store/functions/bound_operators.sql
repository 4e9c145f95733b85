-- At most 500 operators ever: no name is given twice, and none is deleted. One is added at a time.
CREATE OR REPLACE FUNCTION bound_operators() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('operator'));
    IF (SELECT count(*) FROM operator) >= 500 THEN
        RAISE EXCEPTION 'there are at most 500 operators'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operator_bound';
    END IF;
    RETURN NEW;
END $$;
