-- The history of a setting never runs ahead of it.
CREATE OR REPLACE FUNCTION setting_change_follows() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM setting s WHERE s.name = NEW.name
        AND (s.revision > NEW.revision OR s.revision = NEW.revision AND s.enabled = NEW.enabled
            AND s.changed_at = NEW.changed_at))
    THEN
        RAISE EXCEPTION 'an entry is not ahead of its setting' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
