-- At the end of a transaction each event has its piece of evidence, and the standing is not
-- behind it.
CREATE OR REPLACE FUNCTION event_whole() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM evidence v
            WHERE (v.provider_id, v.model_id, v.number) = (NEW.provider_id, NEW.model_id, NEW.number)
    ) THEN
        RAISE EXCEPTION 'an event has its evidence' USING ERRCODE = 'check_violation';
    ELSIF NOT EXISTS (
        SELECT FROM standing s WHERE s.provider_id = NEW.provider_id AND s.model_id = NEW.model_id
            AND (s.number > NEW.number OR s.number = NEW.number AND s.level = NEW.level AND s.m = NEW.m)
    ) THEN
        RAISE EXCEPTION 'an event is not ahead of its standing' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
