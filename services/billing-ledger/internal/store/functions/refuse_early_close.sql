-- A day is closed when it is over.
CREATE OR REPLACE FUNCTION refuse_early_close() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'day % is not over', NEW.day USING ERRCODE = 'integrity_constraint_violation';
END $$;
