-- An endpoint has the origin of its base URL, and its provider a claim on the origin. An endpoint is healthy only
-- while its provider holds the origin, so that two providers never serve from one server unless an operator allows
-- it. Vendors of gateway models share every origin, because the platform is one of many customers of their servers.
-- What an operator disabled stays disabled, whatever a provider registers there anew.
CREATE OR REPLACE FUNCTION external_origin_claimed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	claim record;
	holder record;
BEGIN
	NEW.origin := external_origin_of(NEW.base_url);
	IF TG_OP = 'UPDATE' AND OLD.state = 'healthy' AND (NEW.state <> 'healthy' OR NEW.origin <> OLD.origin) THEN
		UPDATE external_origin o SET last_healthy = statement_timestamp()
			WHERE o.origin = OLD.origin AND o.provider_id = OLD.provider_id;
	END IF;
	INSERT INTO external_origin (origin, provider_id, shared)
		SELECT NEW.origin, p.provider_id, p.vendor FROM provider p WHERE p.provider_id = NEW.provider_id
		ON CONFLICT (origin, provider_id) DO NOTHING;
	SELECT * INTO STRICT claim FROM external_origin o
		WHERE o.origin = NEW.origin AND o.provider_id = NEW.provider_id;
	IF claim.disabled_at IS NOT NULL AND NEW.disabled_at IS NULL THEN
		NEW.disabled_at := claim.disabled_at;
		NEW.disabled_reason := claim.disabled_reason;
	END IF;
	IF NEW.state = 'healthy' AND NEW.disabled_at IS NULL AND claim.held_since IS NULL THEN
		SELECT o.* INTO holder FROM external_origin o JOIN provider p USING (provider_id)
			WHERE NOT claim.shared AND o.origin = NEW.origin AND o.held_since IS NOT NULL AND NOT o.shared
				AND CASE WHEN p.status <> 'active' AND o.held_since <= statement_timestamp() - interval '7 days' THEN true
					ELSE NOT EXISTS (SELECT FROM external_endpoint e
						WHERE e.origin = o.origin AND e.provider_id = o.provider_id AND e.state = 'healthy')
						AND (p.status <> 'active'
							OR coalesce(o.last_healthy, o.held_since) <= statement_timestamp() - interval '24 hours') END
			FOR UPDATE OF o;
		IF FOUND THEN
			UPDATE external_origin o SET held_since = NULL
				WHERE o.origin = holder.origin AND o.provider_id = holder.provider_id;
			UPDATE external_endpoint e SET state = 'unhealthy', last_error = 'origin_taken'
				WHERE e.origin = holder.origin AND e.provider_id = holder.provider_id AND e.state = 'healthy';
		END IF;
		UPDATE external_origin o SET held_since = statement_timestamp()
			WHERE o.origin = NEW.origin AND o.provider_id = NEW.provider_id;
	END IF;
	RETURN NEW;
END
$$;
