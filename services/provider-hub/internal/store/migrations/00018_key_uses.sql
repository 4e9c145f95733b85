-- When keys were last shown, so that operators and owners find those that nobody needs, or that somebody else has.

-- +goose Up
-- NULL for a key that was not shown since the column is there.
ALTER TABLE provider_key ADD COLUMN used_at timestamptz;
GRANT UPDATE (used_at) ON provider_key TO svc_hub;
