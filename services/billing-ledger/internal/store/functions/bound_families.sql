CREATE OR REPLACE FUNCTION bound_families() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM session_family WHERE user_id = NEW.user_id) >= 32 THEN
        RAISE EXCEPTION 'a user has at most 32 session families' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
