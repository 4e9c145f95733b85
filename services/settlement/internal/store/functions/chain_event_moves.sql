-- An event is what it is. It goes once, while its chain is halted.
CREATE OR REPLACE FUNCTION chain_event_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_was record;
BEGIN
    v_was := OLD;
    v_was.gone_at := NEW.gone_at;
    IF OLD.gone_at IS NOT NULL OR v_was IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'rows of chain_event are kept as they are' USING ERRCODE = 'restrict_violation';
    ELSIF NOT EXISTS (SELECT FROM chain_halt h WHERE h.chain_id = NEW.chain_id AND h.lifted_at IS NULL) THEN
        RAISE EXCEPTION 'an event goes only where its chain is halted' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
