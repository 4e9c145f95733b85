-- At the end of a transaction a provider that is not rejected is suspended exactly while a
-- cause holds. It reads the rows as they are then, because causes and status are written
-- one after the other.
CREATE OR REPLACE FUNCTION provider_suspended_by_cause() RETURNS trigger LANGUAGE plpgsql
SET search_path = hub, pg_temp AS $$
BEGIN
	IF EXISTS (SELECT FROM provider p
		WHERE p.provider_id = NEW.provider_id AND p.status <> 'rejected' AND (p.status = 'suspended') <> EXISTS (
			SELECT FROM provider_suspension s WHERE s.provider_id = p.provider_id AND s.since IS NOT NULL)
	) THEN
		RAISE EXCEPTION 'a provider is suspended exactly while a cause holds' USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END
$$;
