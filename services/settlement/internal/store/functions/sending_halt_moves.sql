-- A halt is lifted once, and says then what it said.
CREATE OR REPLACE FUNCTION sending_halt_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF OLD.lifted_at IS NOT NULL OR NEW.lifted_at IS NULL OR (OLD.chain_id, OLD.cause, OLD.since, OLD.detail)
        IS DISTINCT FROM (NEW.chain_id, NEW.cause, NEW.since, NEW.detail)
    THEN
        RAISE EXCEPTION 'a halt is lifted once' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
