-- One admin stays active, or nobody could make operators any more. The changes of admins wait
-- for each other here, and each then sees what the one before it did.
CREATE OR REPLACE FUNCTION keep_admin() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('operator'));
    IF NOT EXISTS (SELECT FROM operator WHERE role = 'admin' AND state = 'active' AND id <> OLD.id) THEN
        RAISE EXCEPTION 'the last admin stays active'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'operator_keeps_an_admin';
    END IF;
    RETURN NEW;
END $$;
