-- A call is cancelled by the transaction without its content, and by no other.
CREATE OR REPLACE FUNCTION call_end_fits() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF (NEW.outcome = 'cancelled') IS DISTINCT FROM (SELECT s.call_hash IS NULL FROM signed_tx s WHERE s.hash = NEW.hash)
    THEN
        RAISE EXCEPTION 'the outcome % is not that of the transaction', NEW.outcome USING ERRCODE = 'check_violation';
    END IF;
    NEW.ended_at := clock_timestamp();
    RETURN NEW;
END $$;
