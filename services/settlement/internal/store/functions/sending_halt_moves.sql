-- A halt is lifted once, and says then what it said. That of reserves stands while a shortfall does.
CREATE OR REPLACE FUNCTION sending_halt_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF OLD.lifted_at IS NOT NULL OR NEW.lifted_at IS NULL OR (OLD.chain_id, OLD.cause, OLD.since, OLD.detail)
        IS DISTINCT FROM (NEW.chain_id, NEW.cause, NEW.since, NEW.detail)
    THEN
        RAISE EXCEPTION 'a halt is lifted once' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.cause = 'reserves' AND EXISTS (SELECT FROM reserve
        WHERE confirmed AND (chain_id = NEW.chain_id OR subject = 'books'))
    THEN
        RAISE EXCEPTION 'a shortfall of chain % stands', NEW.chain_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'sending_halt_reserves', TABLE = 'sending_halt';
    END IF;
    RETURN NEW;
END $$;
