-- An observation is forgotten with its event, whose evidence is cleared.
CREATE OR REPLACE FUNCTION observation_ends() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM evidence v WHERE (v.provider_id, v.model_id, v.number) = (OLD.provider_id, OLD.model_id, OLD.number)
            AND v.sealed IS NULL
    ) THEN
        RAISE EXCEPTION 'rows of observation are kept as they are' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
