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
GRANT SELECT, INSERT ON usage_key TO svc_settlement;

-- +goose Down
DROP TABLE usage_key;
