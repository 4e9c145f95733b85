-- A conversion begins behind the last of its provider, by the database's clock.
CREATE OR REPLACE FUNCTION conversion_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    PERFORM FROM provider WHERE provider_id = NEW.provider_id FOR UPDATE;
    NEW.requested_at := clock_timestamp();
    NEW.number := coalesce((SELECT max(c.number) FROM conversion c WHERE c.provider_id = NEW.provider_id), 0) + 1;
    NEW.bound_at := (SELECT c.requested_at FROM conversion c
        WHERE c.provider_id = NEW.provider_id AND c.number = NEW.number - 60);
    RETURN NEW;
END $$;
