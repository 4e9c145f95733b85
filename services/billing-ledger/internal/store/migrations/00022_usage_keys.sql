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

-- What the ledger's own proofs follow from, made at the first start.
CREATE TABLE ledger_secret (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret     bytea NOT NULL CHECK (octet_length(secret) = 32),
    created_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT ON usage_key, ledger_secret TO svc_billing;

ALTER TABLE quarantine DROP CONSTRAINT quarantine_reason_check;
ALTER TABLE quarantine ADD CONSTRAINT quarantine_reason_check CHECK (reason IN ('undecodable', 'invalid', 'unknown_request',
    'altered', 'price_mismatch', 'above_hold', 'refused', 'forged', 'unknown_key'));

-- +goose Down
DELETE FROM quarantine WHERE reason IN ('forged', 'unknown_key');
ALTER TABLE quarantine DROP CONSTRAINT quarantine_reason_check;
ALTER TABLE quarantine ADD CONSTRAINT quarantine_reason_check CHECK (reason IN ('undecodable', 'invalid', 'unknown_request',
    'altered', 'price_mismatch', 'above_hold', 'refused'));
DROP TABLE ledger_secret;
DROP TABLE usage_key;
