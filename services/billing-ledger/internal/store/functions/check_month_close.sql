-- What ended before the close of its month ended before it by the times that both have: a
-- close that began before such an end begins again.
CREATE OR REPLACE FUNCTION check_month_close() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM held_earning WHERE book = NEW.month AND ended_at >= now()) THEN
        RAISE EXCEPTION 'held earnings of the month % ended meanwhile', NEW.month USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END $$;
