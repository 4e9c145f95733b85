-- The database counts the ranks, under the lock of the provider's row. A row that stands
-- already counts once: the conflict is found after this trigger.
--
-- This function names its tables with their schema and leaves the search path alone, as all
-- here do that read the clock, so that tests can put a clock in the place of the server's.
CREATE OR REPLACE FUNCTION offering_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM verifier.provider p WHERE p.provider_id = NEW.provider_id FOR UPDATE;
    NEW.first_seen := clock_timestamp();
    NEW.seen_at := NEW.first_seen;
    NEW.changed_at := NEW.first_seen;
    SELECT o.rank INTO NEW.rank FROM verifier.offering o
        WHERE (o.provider_id, o.model_id) = (NEW.provider_id, NEW.model_id);
    IF NOT FOUND THEN
        UPDATE verifier.provider p SET models = p.models + 1
            WHERE p.provider_id = NEW.provider_id RETURNING p.models INTO NEW.rank;
    END IF;
    RETURN NEW;
END $$;
