-- When an origin may be taken over from whoever holds it, and one origin for all forms of an IPv6 address.

-- +goose Up
-- So that no hub claims an origin between the statements.
LOCK TABLE external_endpoint, external_origin IN SHARE ROW EXCLUSIVE MODE;

-- When an endpoint of the provider at the origin was last healthy and ceased to be; NULL for never.
ALTER TABLE external_origin ADD COLUMN last_healthy timestamptz;
GRANT UPDATE (last_healthy) ON external_origin TO svc_hub;

-- Claims keep what operators said. The next good probe there holds the origin.
INSERT INTO external_origin (origin, provider_id, shared, disabled_at, disabled_reason)
	SELECT DISTINCT ON (external_origin_of(origin), provider_id)
		external_origin_of(origin), provider_id, shared, disabled_at, disabled_reason
	FROM external_origin WHERE origin <> external_origin_of(origin)
	ORDER BY external_origin_of(origin), provider_id, disabled_at
	ON CONFLICT (origin, provider_id) DO UPDATE
		SET held_since = NULL, disabled_at = EXCLUDED.disabled_at, disabled_reason = EXCLUDED.disabled_reason
		WHERE EXCLUDED.disabled_at IS NOT NULL AND external_origin.disabled_at IS NULL;
-- The trigger is of the form before.
ALTER TABLE external_endpoint DISABLE TRIGGER external_origin_claimed;
UPDATE external_endpoint SET origin = external_origin_of(origin), state = 'new', last_error = ''
	WHERE origin <> external_origin_of(origin);
ALTER TABLE external_endpoint ENABLE TRIGGER external_origin_claimed;
DELETE FROM external_origin WHERE origin <> external_origin_of(origin);
