-- A standing moves by one event at a time. Its revision counts what is published.
CREATE OR REPLACE FUNCTION standing_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.number <> 1 THEN
            RAISE EXCEPTION 'a standing begins with its first event, not %', NEW.number
                USING ERRCODE = 'check_violation';
        END IF;
        NEW.revision := 1;
        RETURN NEW;
    ELSIF NEW.number <> OLD.number + 1 THEN
        RAISE EXCEPTION 'event % does not follow %', NEW.number, OLD.number USING ERRCODE = 'check_violation';
    ELSIF (NEW.provider_id, NEW.model_id) <> (OLD.provider_id, OLD.model_id) THEN
        RAISE EXCEPTION 'a standing is of one offer' USING ERRCODE = 'check_violation';
    ELSIF NEW.moved_at < OLD.moved_at THEN
        RAISE EXCEPTION 'a standing does not go back in time' USING ERRCODE = 'check_violation';
    END IF;
    NEW.revision := OLD.revision;
    IF (NEW.trust, NEW.lane, NEW.cap_tokens, NEW.grace_until, NEW.passed_at)
        IS DISTINCT FROM (OLD.trust, OLD.lane, OLD.cap_tokens, OLD.grace_until, OLD.passed_at)
    THEN
        NEW.revision := OLD.revision + 1;
    END IF;
    RETURN NEW;
END $$;
