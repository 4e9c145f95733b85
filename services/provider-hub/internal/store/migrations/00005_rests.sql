-- +goose Up
-- What is left of a probation that a removal ended: until when it counts, and what was
-- measured of the parts that are over. provider_key_returns has a new text too.
ALTER TABLE provider
	-- Null while the removal lasts.
	ADD COLUMN probation_left_until timestamptz,
	ADD COLUMN probation_up_ms bigint NOT NULL DEFAULT 0 CHECK (probation_up_ms >= 0),
	ADD COLUMN probation_total_ms bigint NOT NULL DEFAULT 0 CHECK (probation_total_ms <= 86400000),
	ADD CONSTRAINT provider_probation_measured CHECK (probation_up_ms <= probation_total_ms);
UPDATE provider SET probation_left_until = now() + interval '7 days'
WHERE probation_left_ms IS NOT NULL AND status <> 'rejected';
GRANT UPDATE (probation_left_until, probation_up_ms, probation_total_ms) ON provider TO svc_hub;
