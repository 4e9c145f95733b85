-- +goose Up
-- The keys under which hubs seal their usage, for good: usage may come long after
-- its hub has gone.
CREATE TABLE usage_key (
    hub_id     text NOT NULL CHECK (hub_id ~ '^[a-z0-9-]{1,32}$'),
    key_id     bytea NOT NULL CHECK (octet_length(key_id) = 8),
    secret     bytea NOT NULL CHECK (octet_length(secret) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (hub_id, key_id)
);

CREATE INDEX usage_key_new ON usage_key (hub_id, created_at);
CREATE TRIGGER usage_key_bound AFTER INSERT ON usage_key
    FOR EACH ROW EXECUTE FUNCTION bound_usage_keys();

GRANT SELECT, INSERT ON usage_key TO svc_settlement;
