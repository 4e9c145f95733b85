CREATE OR REPLACE FUNCTION bound_identities() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM user_identity WHERE user_id = NEW.user_id) >= 8 THEN
        RAISE EXCEPTION 'a user has at most 8 identities' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
