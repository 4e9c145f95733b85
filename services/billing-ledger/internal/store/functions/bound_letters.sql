CREATE OR REPLACE FUNCTION bound_letters() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM letter_token WHERE user_id = NEW.user_id AND kind = NEW.kind) >= 8 THEN
        RAISE EXCEPTION 'a user has at most 8 tokens of letters of a kind'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
