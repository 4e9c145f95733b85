CREATE OR REPLACE FUNCTION bound_proofs() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM used_proof WHERE user_id = NEW.user_id) >= 32 THEN
        RAISE EXCEPTION 'a user has at most 32 proofs that count' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
