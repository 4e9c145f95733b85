-- Who serves from which server: the scheme, host and port of endpoints, one provider each unless an operator allows
-- more, and what operators disabled, which outlives the endpoint.

-- +goose Up
-- So that no hub registers an endpoint between the copy and the triggers.
LOCK TABLE external_endpoint IN SHARE ROW EXCLUSIVE MODE;

CREATE TABLE external_origin (
	origin      text COLLATE "C" NOT NULL
		CHECK (octet_length(origin) <= 512 AND origin ~ '^https?://[^/?#@[:space:]]+$'),
	provider_id uuid NOT NULL REFERENCES provider,
	-- Since when the provider serves from there: from the first good probe on. Whoever only registers an endpoint
	-- holds nothing, so that nobody keeps a server from its owner by naming it first.
	held_since  timestamptz,
	-- Whether an operator lets the provider share the origin with others.
	shared      boolean NOT NULL DEFAULT false,
	disabled_at timestamptz,
	disabled_reason text NOT NULL DEFAULT '' CHECK (char_length(disabled_reason) <= 200),
	PRIMARY KEY (origin, provider_id),
	CONSTRAINT external_origin_disabled_is_not_held CHECK (disabled_at IS NULL OR held_since IS NULL)
);
COMMENT ON TABLE external_origin IS 'Claims of providers on the servers of their endpoints.';
CREATE UNIQUE INDEX external_origin_has_one_provider ON external_origin (origin)
	WHERE held_since IS NOT NULL AND NOT shared;

ALTER TABLE external_endpoint ADD COLUMN origin text COLLATE "C";
UPDATE external_endpoint SET origin = substring(base_url FROM '^https?://[^/]+');
INSERT INTO external_origin (origin, provider_id, shared, disabled_at, disabled_reason)
	SELECT e.origin, provider_id, p.vendor, min(e.disabled_at),
		coalesce(min(e.disabled_reason) FILTER (WHERE e.disabled_at IS NOT NULL), '')
	FROM external_endpoint e JOIN provider p USING (provider_id) GROUP BY e.origin, provider_id, p.vendor;
-- Of several providers that serve from one server, the first one holds it.
UPDATE external_origin o SET held_since = h.created_at
	FROM (SELECT DISTINCT ON (e.origin) e.origin, e.provider_id, e.created_at
		FROM external_endpoint e JOIN external_origin c USING (origin, provider_id)
		WHERE e.state = 'healthy' AND c.disabled_at IS NULL AND NOT c.shared ORDER BY e.origin, e.created_at, e.endpoint_id) h
	WHERE h.origin = o.origin AND h.provider_id = o.provider_id;
ALTER TABLE external_endpoint ALTER COLUMN origin SET NOT NULL,
	ADD FOREIGN KEY (origin, provider_id) REFERENCES external_origin;
CREATE INDEX external_endpoint_at ON external_endpoint (origin, provider_id);

CREATE TRIGGER external_origin_claimed BEFORE INSERT OR UPDATE OF base_url, origin, provider_id, state, disabled_at
	ON external_endpoint FOR EACH ROW EXECUTE FUNCTION external_origin_claimed();
CREATE TRIGGER external_origin_released AFTER DELETE OR UPDATE OF base_url ON external_endpoint
	FOR EACH ROW EXECUTE FUNCTION external_origin_released();

GRANT SELECT, INSERT (origin, provider_id, shared), DELETE, UPDATE (held_since, shared, disabled_at, disabled_reason)
	ON external_origin TO svc_hub;
