-- +goose Up
-- An audit entry keeps the name of the operator who acted: operator:alice. What was
-- written before stays as it is, and so does what the version before writes.
ALTER TABLE provider_status_change DROP CONSTRAINT provider_status_change_changed_by_check;
ALTER TABLE provider_status_change ADD CONSTRAINT provider_status_change_changed_by_check
	CHECK (changed_by IN ('operator', 'provider', 'platform') OR changed_by ~ '^operator:[a-z0-9._@-]{1,64}$') NOT VALID;
ALTER TABLE provider_status_change VALIDATE CONSTRAINT provider_status_change_changed_by_check;
