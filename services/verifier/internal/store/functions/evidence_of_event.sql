-- A piece of evidence begins with its event, which it outlives.
CREATE OR REPLACE FUNCTION evidence_of_event() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM event e WHERE (e.provider_id, e.model_id, e.number) = (NEW.provider_id, NEW.model_id, NEW.number)
    ) THEN
        RAISE EXCEPTION 'a piece of evidence begins with its event' USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;
