-- +goose Up
-- Grows with every registration of every node, over all hubs and restarts: the
-- newest session of a node wins.
CREATE SEQUENCE session_epoch AS bigint;

CREATE TABLE provider (
	provider_id     uuid PRIMARY KEY,
	name            text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 64),
	status          text NOT NULL CHECK (status IN ('pending', 'active', 'suspended')),
	region          text NOT NULL CHECK (char_length(region) <= 32),
	idempotency_key text UNIQUE CHECK (char_length(idempotency_key) BETWEEN 1 AND 128),
	created_at      timestamptz NOT NULL
);
CREATE INDEX provider_by_age ON provider (created_at, provider_id);

CREATE TABLE provider_key (
	key_id      uuid PRIMARY KEY,
	provider_id uuid NOT NULL REFERENCES provider,
	name        text NOT NULL CHECK (char_length(name) <= 64),
	key_hash    bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32),
	key_prefix  text NOT NULL CHECK (char_length(key_prefix) = 12),
	created_at  timestamptz NOT NULL DEFAULT now(),
	revoked_at  timestamptz
);

-- Who was what and when; only ever added to.
CREATE TABLE provider_status_change (
	change_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	provider_id uuid NOT NULL REFERENCES provider,
	from_status text NOT NULL,
	to_status   text NOT NULL CHECK (to_status <> from_status),
	changed_at  timestamptz NOT NULL DEFAULT now()
);

GRANT USAGE ON SEQUENCE session_epoch TO svc_hub;
GRANT SELECT, INSERT ON provider TO svc_hub;
GRANT UPDATE (status) ON provider TO svc_hub;
GRANT SELECT, INSERT ON provider_key TO svc_hub;
GRANT UPDATE (revoked_at) ON provider_key TO svc_hub;
GRANT INSERT ON provider_status_change TO svc_hub;

-- +goose Down
DROP TABLE provider_status_change;
DROP TABLE provider_key;
DROP TABLE provider;
DROP SEQUENCE session_epoch;
