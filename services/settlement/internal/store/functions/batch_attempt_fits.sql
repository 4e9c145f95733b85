-- Attempts are counted from 1. The first is at most the share, and each is below the one before.
CREATE OR REPLACE FUNCTION batch_attempt_fits() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_last batch_attempt;
    v_share batch_share;
BEGIN
    SELECT * INTO v_share FROM batch_share WHERE day = NEW.day AND provider_id = NEW.provider_id;
    SELECT * INTO v_last FROM batch_attempt WHERE day = NEW.day AND provider_id = NEW.provider_id
        ORDER BY attempt DESC LIMIT 1;
    IF NEW.attempt <> coalesce(v_last.attempt, 0) + 1 OR NEW.amount >= coalesce(v_last.amount, v_share.amount + 1) THEN
        RAISE EXCEPTION 'an attempt is for less than the one before' USING ERRCODE = 'check_violation';
    ELSIF v_share.posted IS NOT NULL THEN
        RAISE EXCEPTION 'the share is posted' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
