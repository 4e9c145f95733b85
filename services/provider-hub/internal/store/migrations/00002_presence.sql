-- Machines and connections of providers, and what was seen of them.

-- +goose Up
-- Grows with every registration of every node, over all hubs and restarts: the
-- newest session of a node wins.
CREATE SEQUENCE session_epoch AS bigint;

-- What was seen last of a provider's machines.
CREATE TABLE provider_node (
	provider_id        uuid NOT NULL REFERENCES provider,
	node_id            text NOT NULL CHECK (char_length(node_id) BETWEEN 1 AND 64),
	node_name          text NOT NULL CHECK (char_length(node_name) <= 256),
	agent_version      text NOT NULL CHECK (char_length(agent_version) <= 256),
	dialect            text NOT NULL CHECK (char_length(dialect) <= 8),
	gpu_type           text NOT NULL DEFAULT '',
	gpu_model          text NOT NULL DEFAULT '',
	gpu_count          int NOT NULL DEFAULT 0,
	vram_gb            int NOT NULL DEFAULT 0,
	memory_mb          bigint NOT NULL DEFAULT 0,
	compute_capability text NOT NULL DEFAULT '',
	engine             text NOT NULL DEFAULT '',
	gpu_eligible       boolean NOT NULL DEFAULT false,
	-- Why it is not; empty when it is.
	gpu_shortfall      text NOT NULL DEFAULT '',
	last_seen_at       timestamptz NOT NULL,
	-- How often one live connection of it took another's place since a time.
	replaced           int NOT NULL DEFAULT 0,
	replaced_since     timestamptz,
	replaced_at        timestamptz,
	-- The last warm-up that failed, until one succeeds.
	warmup_error       text NOT NULL DEFAULT '',
	-- Which claims of its models are taken as less than was claimed, in words.
	cut_claims         text NOT NULL DEFAULT '' CHECK (char_length(cut_claims) <= 2000),
	PRIMARY KEY (provider_id, node_id)
);
CREATE INDEX provider_node_by_age ON provider_node (last_seen_at);
CREATE INDEX provider_node_latest ON provider_node (provider_id, last_seen_at DESC);
CREATE INDEX provider_node_eligible ON provider_node (provider_id) WHERE gpu_eligible;

-- One life of one hub. last_seen is also that of every connection which its
-- hub has not ended.
CREATE TABLE hub_run (
	hub_id      text NOT NULL CHECK (char_length(hub_id) BETWEEN 1 AND 32),
	incarnation bigint NOT NULL,
	started     timestamptz NOT NULL,
	last_seen   timestamptz NOT NULL CHECK (last_seen >= started),
	-- When it last said so, by the clock of the database: hubs' clocks differ.
	heard       timestamptz NOT NULL DEFAULT clock_timestamp(),
	ended       timestamptz CHECK (ended >= started),
	PRIMARY KEY (hub_id, incarnation)
);
CREATE INDEX hub_run_by_age ON hub_run (last_seen);

-- One connection of one node.
CREATE TABLE presence_interval (
	epoch       bigint PRIMARY KEY,
	provider_id uuid NOT NULL REFERENCES provider,
	node_id     text NOT NULL,
	hub_id      text NOT NULL,
	incarnation bigint NOT NULL,
	started     timestamptz NOT NULL,
	ended       timestamptz CHECK (ended >= started),
	ended_by    text CHECK (ended_by IN ('platform', 'provider')),
	CHECK ((ended IS NULL) = (ended_by IS NULL)),
	FOREIGN KEY (hub_id, incarnation) REFERENCES hub_run
);
CREATE INDEX presence_interval_by_provider ON presence_interval (provider_id, started, epoch);
CREATE INDEX presence_interval_open ON presence_interval (hub_id, incarnation) WHERE ended IS NULL;
CREATE INDEX presence_interval_standing ON presence_interval (provider_id, node_id) WHERE ended IS NULL;
CREATE INDEX presence_interval_by_end ON presence_interval (ended);

-- Engines that call a model otherwise than they were asked for: one line for each
-- model of a provider, whatever the names. Nothing rests on it but what is shown.
CREATE TABLE answered_as (
	provider_id uuid NOT NULL REFERENCES provider,
	-- The catalog's name.
	model_id    text NOT NULL CHECK (char_length(model_id) BETWEEN 1 AND 256),
	-- What the engine said last: its own text, cleaned.
	answered_as text NOT NULL CHECK (char_length(answered_as) BETWEEN 1 AND 200),
	first_at    timestamptz NOT NULL,
	last_at     timestamptz NOT NULL CHECK (last_at >= first_at),
	answers     bigint NOT NULL CHECK (answers > 0),
	PRIMARY KEY (provider_id, model_id)
);
CREATE INDEX answered_as_by_age ON answered_as (last_at);

GRANT USAGE ON SEQUENCE session_epoch TO svc_hub;
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_node TO svc_hub;
GRANT SELECT, INSERT, UPDATE (last_seen, heard, ended), DELETE ON hub_run TO svc_hub;
GRANT SELECT, INSERT, UPDATE (ended, ended_by), DELETE ON presence_interval TO svc_hub;
GRANT SELECT, INSERT, UPDATE (answered_as, first_at, last_at, answers), DELETE ON answered_as TO svc_hub;
