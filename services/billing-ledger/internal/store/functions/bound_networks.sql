CREATE OR REPLACE FUNCTION bound_networks() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM known_network WHERE user_id = NEW.user_id) >= 8 THEN
        RAISE EXCEPTION 'a user has at most 8 known networks' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
