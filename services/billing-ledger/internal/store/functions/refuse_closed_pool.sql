-- Who adds to a month's pool, or takes from it, waits for the month's close, and then finds
-- it closed.
CREATE OR REPLACE FUNCTION refuse_closed_pool() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext('billing.plan_pool'), hashtext(NEW.book));
    IF EXISTS (SELECT FROM closed_month WHERE month = NEW.book) THEN
        RAISE EXCEPTION 'the month % of plans is closed', NEW.book
            USING ERRCODE = 'check_violation', CONSTRAINT = 'plan_pool_is_open';
    END IF;
    RETURN NEW;
END $$;
