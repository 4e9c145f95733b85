-- A month's close withholds what is held then, and nothing is withheld afterwards. What is
-- withheld ends after the close by the times that both have: a transaction that began before
-- the close begins again.
CREATE OR REPLACE FUNCTION check_withheld() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
DECLARE
    v_closed timestamptz;
BEGIN
    SELECT closed_at INTO v_closed FROM closed_month WHERE month = NEW.book;
    IF NOT OLD.withheld AND v_closed IS NOT NULL THEN
        RAISE EXCEPTION 'the month % was closed without the earnings of request %', NEW.book, NEW.request_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'held_earning_withheld_by_close';
    END IF;
    IF NEW.ended_as IS NOT NULL AND v_closed >= now() THEN
        RAISE EXCEPTION 'the month % was closed meanwhile', NEW.book USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END $$;
