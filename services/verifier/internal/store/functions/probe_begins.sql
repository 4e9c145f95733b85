-- A probe begins in the queue, by the database's clock.
CREATE OR REPLACE FUNCTION probe_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> 'queued' OR NEW.tries <> 0 THEN
        RAISE EXCEPTION 'a probe begins in the queue, not %', NEW.state USING ERRCODE = 'check_violation';
    END IF;
    NEW.created_at := clock_timestamp();
    NEW.next_at := NEW.due_at;
    RETURN NEW;
END $$;
