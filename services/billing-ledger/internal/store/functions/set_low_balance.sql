-- Who sets low_at above its balance knows that the balance is low.
CREATE OR REPLACE FUNCTION set_low_balance() RETURNS trigger LANGUAGE plpgsql SET search_path = billing, pg_temp AS $$
BEGIN
    NEW.low := coalesce(NEW.posted < NEW.low_at, false);
    RETURN NEW;
END $$;
