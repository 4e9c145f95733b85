-- Counts of a provider move by one.
CREATE OR REPLACE FUNCTION provider_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF NEW.provider_id <> OLD.provider_id OR NEW.models - OLD.models NOT IN (0, 1)
        OR NEW.revision - OLD.revision NOT IN (0, 1)
    THEN
        RAISE EXCEPTION 'a provider''s counts grow by one' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
