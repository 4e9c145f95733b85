-- The origin of a base URL: scheme, host and port, with an IPv6 address in one form, so that one server is one
-- origin. Base URLs from before hubs wrote that form stay as they are, because keys are sealed with them.
CREATE OR REPLACE FUNCTION external_origin_of(base_url text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT CASE WHEN o ~ '^https?://\[[0-9a-f:.]+\](:[0-9]+)?$'
		THEN regexp_replace(o, '\[.*\]', '[' || host(substring(o FROM '\[(.*)\]')::inet) || ']') ELSE o END
	FROM substring(base_url FROM '^https?://[^/]+') o
$$;
