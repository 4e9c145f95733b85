-- At the end of a transaction no provider but a vendor of gateway models is active without
-- collateral and a passed benchmark. It reads the row as it is then, because a status is written
-- before its facts.
CREATE OR REPLACE FUNCTION provider_active_is_qualified() RETURNS trigger LANGUAGE plpgsql
SET search_path = hub, pg_temp AS $$
BEGIN
	IF EXISTS (SELECT FROM provider p
		WHERE p.provider_id = NEW.provider_id AND p.status = 'active' AND NOT p.vendor
			AND (p.collateral_at IS NULL OR p.benchmark_at IS NULL)
	) THEN
		RAISE EXCEPTION 'a provider is active by its collateral and its benchmark alone' USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END
$$;
