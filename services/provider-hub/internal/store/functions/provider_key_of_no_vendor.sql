-- A vendor of gateway models has no key, or its holder could serve gateway models by an agent.
CREATE OR REPLACE FUNCTION provider_key_of_no_vendor() RETURNS trigger LANGUAGE plpgsql
SET search_path = hub, pg_temp AS $$
BEGIN
	IF EXISTS (SELECT FROM provider p WHERE p.provider_id = NEW.provider_id AND p.vendor) THEN
		RAISE EXCEPTION 'a vendor has no key' USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END
$$;
