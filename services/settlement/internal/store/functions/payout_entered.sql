-- Each revision of a payout has its row in the history, in the same transaction.
CREATE OR REPLACE FUNCTION payout_entered() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.revision = OLD.revision THEN
        RETURN NULL;
    ELSIF NOT EXISTS (
        SELECT FROM payout_change c
        WHERE c.payout_id = NEW.payout_id AND c.revision = NEW.revision AND c.to_state = NEW.state
            AND c.from_state = CASE WHEN TG_OP = 'INSERT' THEN '' ELSE OLD.state END
    ) THEN
        RAISE EXCEPTION 'a payout changes with an entry' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
