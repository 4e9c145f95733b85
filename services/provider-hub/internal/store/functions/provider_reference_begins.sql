-- Only a provider that is pending becomes a reference; provider_reference_never_active
-- has the rest.
CREATE OR REPLACE FUNCTION provider_reference_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.status <> 'pending' THEN
		RAISE EXCEPTION 'a provider that is % becomes no reference', NEW.status USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END
$$;
