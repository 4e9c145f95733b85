-- A provider that changes its wallet all the time fills no table.
CREATE OR REPLACE FUNCTION bound_identities() RETURNS trigger
LANGUAGE plpgsql SET search_path = verifier, pg_temp AS $$
DECLARE
    c_max CONSTANT integer := 256;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('identity'), hashtext(NEW.provider_id::text));
    IF (SELECT count(*) FROM identity WHERE provider_id = NEW.provider_id) > c_max THEN
        RAISE EXCEPTION 'a provider has at most % identities', c_max
            USING ERRCODE = 'check_violation', CONSTRAINT = 'identity_bound', TABLE = 'identity';
    END IF;
    RETURN NULL;
END $$;
