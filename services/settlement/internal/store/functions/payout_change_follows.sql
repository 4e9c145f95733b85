-- The history of a payout never runs ahead of it.
CREATE OR REPLACE FUNCTION payout_change_follows() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM payout p WHERE p.payout_id = NEW.payout_id
            AND (p.revision > NEW.revision OR p.revision = NEW.revision AND p.state = NEW.to_state)
    ) THEN
        RAISE EXCEPTION 'an entry is not ahead of its payout' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
