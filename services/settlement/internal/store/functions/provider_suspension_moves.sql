-- What the hub is told of a cause changes with its revision, and a revision never goes back. A new revision has not been
-- told yet.
CREATE OR REPLACE FUNCTION provider_suspension_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF (NEW.provider_id, NEW.cause) <> (OLD.provider_id, OLD.cause) OR NEW.revision NOT IN (OLD.revision, OLD.revision + 1)
        OR (NEW.holds <> OLD.holds) <> (NEW.revision <> OLD.revision)
        OR NEW.revision <> OLD.revision AND NEW.told_at IS NOT NULL
        OR NEW.revision = OLD.revision AND OLD.told_at IS NOT NULL AND NEW.told_at IS NULL
    THEN
        RAISE EXCEPTION 'what the hub is told changes with its revision' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
