-- Each revision of a penalty has its row in the history, in the same transaction.
CREATE OR REPLACE FUNCTION penalty_entered() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM penalty_change c
        WHERE c.penalty_id = NEW.penalty_id AND c.revision = NEW.revision AND c.to_state = NEW.state
            AND c.from_state = CASE WHEN TG_OP = 'INSERT' THEN '' ELSE OLD.state END
    ) THEN
        RAISE EXCEPTION 'a penalty changes with an entry' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
