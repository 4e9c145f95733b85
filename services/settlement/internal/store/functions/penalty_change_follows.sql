-- The history of a penalty never runs ahead of it: at the end of a transaction the penalty
-- has the revision of every entry, or a later one.
CREATE OR REPLACE FUNCTION penalty_change_follows() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM penalty p WHERE p.penalty_id = NEW.penalty_id
            AND (p.revision > NEW.revision OR p.revision = NEW.revision AND p.state = NEW.to_state)
    ) THEN
        RAISE EXCEPTION 'an entry is not ahead of its penalty' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
