-- What is gone does not begin to count, and a position is restated only where what counted of it was not what its chain
-- has: one event is gone since, or one begins to count in the same transaction.
CREATE OR REPLACE FUNCTION position_event_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.event IS NOT NULL AND EXISTS (SELECT FROM chain_event c WHERE c.chain_id = NEW.chain_id AND c.seq = NEW.event
        AND c.gone_at IS NOT NULL)
    THEN
        RAISE EXCEPTION 'an event that is gone does not count' USING ERRCODE = 'check_violation';
    ELSIF NEW.kind = 'restated' AND NOT EXISTS (SELECT FROM position_event p WHERE p.chain_id = NEW.chain_id
        AND p.subject = NEW.subject AND p.depositor = NEW.depositor AND p.xmin = pg_current_xact_id()::xid)
    THEN
        RAISE EXCEPTION 'a position is restated by events that go or begin to count' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
