-- A provider that changes its wallet all the time fills no table, and hides nothing else by
-- it: each kind has its own bound. What exceeds the bound is passed over.
CREATE OR REPLACE FUNCTION bound_identities() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
DECLARE
    c_max CONSTANT integer := 64;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('identity'), hashtext(NEW.provider_id::text));
    IF (SELECT count(*) FROM identity WHERE provider_id = NEW.provider_id AND kind = NEW.kind) >= c_max THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
