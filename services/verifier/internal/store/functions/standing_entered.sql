-- Each move of a standing is an event, in the same transaction.
CREATE OR REPLACE FUNCTION standing_entered() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM event e WHERE (e.provider_id, e.model_id, e.number) = (NEW.provider_id, NEW.model_id, NEW.number)
            AND (e.at, e.m, e.level) = (NEW.moved_at, NEW.m, NEW.level)
    ) THEN
        RAISE EXCEPTION 'a standing moves with its event' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
