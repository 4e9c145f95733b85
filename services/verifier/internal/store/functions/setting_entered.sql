-- Each revision of a setting has its row in the history, in the same transaction.
CREATE OR REPLACE FUNCTION setting_entered() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM setting_change c
        WHERE (c.name, c.revision, c.enabled, c.changed_at) = (NEW.name, NEW.revision, NEW.enabled, NEW.changed_at)
    ) THEN
        RAISE EXCEPTION 'a setting changes with an entry' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
