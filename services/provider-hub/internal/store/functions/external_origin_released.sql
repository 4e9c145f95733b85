-- A provider without an endpoint at an origin has no claim on it, unless an operator disabled the claim.
CREATE OR REPLACE FUNCTION external_origin_released() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM external_origin o
		WHERE o.origin = OLD.origin AND o.provider_id = OLD.provider_id AND o.disabled_at IS NULL AND NOT EXISTS (
			SELECT FROM external_endpoint e WHERE e.origin = OLD.origin AND e.provider_id = OLD.provider_id);
	RETURN NULL;
END
$$;
