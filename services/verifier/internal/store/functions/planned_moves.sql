-- An hour is planned once.
CREATE OR REPLACE FUNCTION planned_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF (NEW.provider_id, NEW.model_id) <> (OLD.provider_id, OLD.model_id) OR NEW.hour <= OLD.hour THEN
        RAISE EXCEPTION 'an hour is planned once' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
