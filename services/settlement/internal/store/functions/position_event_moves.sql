-- An event is what it is. The books take what it moved once, and it goes once, after the watcher's event.
CREATE OR REPLACE FUNCTION position_event_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_was record;
BEGIN
    v_was := OLD;
    v_was.entry_id := NEW.entry_id;
    v_was.gone := NEW.gone;
    IF v_was IS DISTINCT FROM NEW OR OLD.entry_id IS NOT NULL AND NEW.entry_id IS DISTINCT FROM OLD.entry_id
        OR NEW IS NOT DISTINCT FROM OLD
    THEN
        RAISE EXCEPTION 'an event changes once, when the books have it' USING ERRCODE = 'check_violation';
    ELSIF OLD.gone AND NOT NEW.gone OR NEW.gone AND NOT OLD.gone AND NOT EXISTS (SELECT FROM chain_event c
        WHERE c.chain_id = NEW.chain_id AND c.seq = NEW.event AND c.gone_at IS NOT NULL)
    THEN
        RAISE EXCEPTION 'an event that counts goes once its chain has it no longer' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
