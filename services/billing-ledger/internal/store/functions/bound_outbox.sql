CREATE OR REPLACE FUNCTION bound_outbox() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM mail_outbox) >= 2100 THEN
        RAISE EXCEPTION 'at most 2100 letters wait' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
