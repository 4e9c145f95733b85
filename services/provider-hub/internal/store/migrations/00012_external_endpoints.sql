-- Servers of providers that a hub calls: where they are, what they serve, and which hub calls each of them.

-- +goose Up
CREATE TABLE external_endpoint (
	endpoint_id uuid PRIMARY KEY,
	provider_id uuid NOT NULL REFERENCES provider,
	-- The place bounds the endpoints of a provider.
	place       smallint NOT NULL CHECK (place BETWEEN 1 AND 16),
	name        text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 64),
	-- Without a user name, a query and a fragment, and without a slash at its end.
	base_url    text COLLATE "C" NOT NULL
		CHECK (octet_length(base_url) <= 512 AND base_url ~ '^https?://[^/?#@[:space:]]+(/[^?#[:space:]]*[^/?#[:space:]])?$'),
	-- The key that the server asks for, sealed with its endpoint and origin, and the name of the key it is sealed with.
	key_sealed  bytea CHECK (octet_length(key_sealed) BETWEEN 29 AND 1100),
	key_seal    bytea CHECK (octet_length(key_seal) = 8),
	-- It grows with every change, so that the hub that calls the server sees one.
	revision    bigint NOT NULL DEFAULT 1,
	state       text COLLATE "C" NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'healthy', 'unhealthy')),
	last_error  text COLLATE "C" NOT NULL DEFAULT '' CHECK (char_length(last_error) <= 32),
	checked_at  timestamptz,
	idempotency_key text CHECK (char_length(idempotency_key) BETWEEN 1 AND 128),
	created_at  timestamptz NOT NULL,
	updated_at  timestamptz NOT NULL,
	-- When an operator took the endpoint out of service, and why.
	disabled_at timestamptz,
	disabled_reason text NOT NULL DEFAULT '' CHECK (char_length(disabled_reason) <= 200),
	UNIQUE (provider_id, place),
	UNIQUE (provider_id, idempotency_key),
	CONSTRAINT external_endpoint_seal_is_named CHECK ((key_sealed IS NULL) = (key_seal IS NULL))
);
COMMENT ON TABLE external_endpoint IS 'OpenAI-compatible servers of providers that hubs call.';
CREATE INDEX external_endpoint_by_time ON external_endpoint (created_at, endpoint_id);

CREATE TABLE external_endpoint_model (
	endpoint_id    uuid NOT NULL REFERENCES external_endpoint ON DELETE CASCADE,
	-- The place bounds the models of an endpoint.
	place          smallint NOT NULL CHECK (place BETWEEN 1 AND 64),
	model_id       text COLLATE "C" NOT NULL CHECK (octet_length(model_id) BETWEEN 1 AND 200),
	local_model    text NOT NULL CHECK (char_length(local_model) BETWEEN 1 AND 200),
	context_length integer NOT NULL DEFAULT 0 CHECK (context_length BETWEEN 0 AND 16777216),
	quantization   text NOT NULL DEFAULT '' CHECK (char_length(quantization) <= 32),
	capabilities   text[] NOT NULL CHECK (cardinality(capabilities) BETWEEN 1 AND 8
		AND capabilities <@ ARRAY['chat', 'embeddings', 'images', 'transcriptions', 'stream', 'logprobs']),
	capacity       integer NOT NULL CHECK (capacity BETWEEN 1 AND 1024),
	-- Whether the server's own list named the model when it was last read.
	listed         boolean NOT NULL DEFAULT false,
	PRIMARY KEY (endpoint_id, place),
	UNIQUE (endpoint_id, model_id)
);

-- The hub that calls an endpoint. holder names one life of a hub; it is null where no hub ever called the endpoint.
CREATE TABLE external_lease (
	endpoint_id uuid PRIMARY KEY REFERENCES external_endpoint ON DELETE CASCADE,
	holder      uuid,
	hub_id      text COLLATE "C",
	expires_at  timestamptz NOT NULL DEFAULT '-infinity',
	CONSTRAINT external_lease_is_named CHECK ((holder IS NULL) = (hub_id IS NULL))
);
CREATE INDEX external_lease_by_holder ON external_lease (holder);
CREATE INDEX external_lease_by_end ON external_lease (expires_at);

-- The hubs that share the endpoints, each with its last word.
CREATE TABLE external_hub (
	holder     uuid PRIMARY KEY,
	hub_id     text COLLATE "C" NOT NULL,
	expires_at timestamptz NOT NULL
);

GRANT SELECT, INSERT, DELETE, UPDATE (name, base_url, key_sealed, key_seal, revision, state, last_error, checked_at,
	updated_at, disabled_at, disabled_reason) ON external_endpoint TO svc_hub;
GRANT SELECT, INSERT, DELETE, UPDATE (listed) ON external_endpoint_model TO svc_hub;
GRANT SELECT, INSERT, DELETE, UPDATE (holder, hub_id, expires_at) ON external_lease TO svc_hub;
GRANT SELECT, INSERT, DELETE, UPDATE (expires_at) ON external_hub TO svc_hub;
