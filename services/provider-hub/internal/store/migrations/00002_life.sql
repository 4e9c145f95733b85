-- +goose Up
-- A provider's whole life: review, qualification, probation, wallet, and what was
-- measured of it.
ALTER TABLE provider
	DROP CONSTRAINT provider_status_check,
	ADD CONSTRAINT provider_status_check CHECK (status IN
		('pending', 'under_review', 'approved', 'activating', 'active', 'suspended', 'rejected')),
	-- Whose account it is.
	ADD COLUMN user_id              text UNIQUE CHECK (char_length(user_id) BETWEEN 1 AND 128),
	-- Only claimed, and good for nothing, until its wallet has signed.
	ADD COLUMN owner_address        text CHECK (owner_address ~ '^0x[0-9a-fA-F]{40}$'),
	ADD COLUMN owner_proven_at      timestamptz CHECK (owner_proven_at IS NULL OR owner_address IS NOT NULL),
	ADD COLUMN beneficiary_address  text CHECK (beneficiary_address ~ '^0x[0-9a-fA-F]{40}$'),
	ADD COLUMN beneficiary_at       timestamptz,
	ADD COLUMN contact_email        text NOT NULL DEFAULT '' CHECK (char_length(contact_email) <= 254),
	ADD COLUMN hardware_summary     text NOT NULL DEFAULT '' CHECK (char_length(hardware_summary) <= 500),
	ADD COLUMN review_requested_at  timestamptz,
	ADD COLUMN rejected_at          timestamptz,
	ADD COLUMN collateral_at        timestamptz,
	ADD COLUMN benchmark_at         timestamptz,
	ADD COLUMN gpu_waived_at        timestamptz,
	-- The waiver came with an activation and ends with it.
	ADD COLUMN gpu_waived_once      boolean NOT NULL DEFAULT false CHECK (NOT gpu_waived_once OR gpu_waived_at IS NOT NULL),
	ADD COLUMN active_since         timestamptz,
	-- Set while the provider is active and not yet judged.
	ADD COLUMN probation_ends_at    timestamptz,
	-- What was measured last; nothing rests on it but what is shown and told.
	ADD COLUMN uptime_24h           double precision CHECK (uptime_24h BETWEEN 0 AND 1),
	ADD COLUMN uptime_30d           double precision CHECK (uptime_30d BETWEEN 0 AND 1),
	ADD COLUMN uptime_at            timestamptz;

CREATE UNIQUE INDEX provider_owner ON provider (owner_address) WHERE owner_proven_at IS NOT NULL;
CREATE INDEX provider_in_probation ON provider (probation_ends_at) WHERE status = 'active' AND probation_ends_at IS NOT NULL;
CREATE INDEX provider_by_benchmark ON provider (benchmark_at) WHERE status = 'active';
CREATE INDEX provider_to_qualify ON provider (provider_id)
	WHERE status IN ('pending', 'activating') AND collateral_at IS NOT NULL AND benchmark_at IS NOT NULL;
CREATE INDEX provider_by_measurement ON provider (uptime_at NULLS FIRST);

ALTER TABLE provider_key
	ADD COLUMN expires_at timestamptz,
	-- Whether it was made to follow another one.
	ADD COLUMN follows    boolean NOT NULL DEFAULT false;
CREATE INDEX provider_key_by_provider ON provider_key (provider_id, created_at);
CREATE INDEX provider_key_over ON provider_key (least(expires_at, revoked_at)) WHERE least(expires_at, revoked_at) IS NOT NULL;

-- A confirmation is a line whose status stays.
ALTER TABLE provider_status_change
	DROP CONSTRAINT provider_status_change_check,
	ADD COLUMN what       text NOT NULL DEFAULT 'set' CHECK (char_length(what) BETWEEN 1 AND 32),
	ADD COLUMN changed_by text NOT NULL DEFAULT 'operator' CHECK (changed_by IN ('operator', 'provider', 'platform')),
	ADD COLUMN reason     text NOT NULL DEFAULT '' CHECK (char_length(reason) <= 200),
	-- Of a change of where earnings go: from where, to where, and by which key.
	ADD COLUMN old_address text,
	ADD COLUMN new_address text,
	ADD COLUMN key_id      uuid REFERENCES provider_key,
	ADD CONSTRAINT provider_status_change_address CHECK ((what = 'beneficiary') = (new_address IS NOT NULL AND key_id IS NOT NULL));
CREATE INDEX provider_status_change_by_provider ON provider_status_change (provider_id, change_id);
CREATE INDEX provider_status_change_beneficiary ON provider_status_change (provider_id, changed_at) WHERE what = 'beneficiary';
CREATE INDEX provider_status_change_by_key ON provider_status_change (key_id) WHERE key_id IS NOT NULL;

-- Those who were active before there was anything to confirm had an operator's
-- word.
INSERT INTO provider_status_change (provider_id, from_status, to_status, what, reason)
	SELECT provider_id, status, status, w.what, 'active before confirmations were kept'
	FROM provider, unnest(ARRAY['collateral_confirmed', 'benchmark_confirmed', 'gpu_waived']) AS w (what)
	WHERE status = 'active';
-- Their benchmarks expire in 20 to 30 days, and not all on one.
UPDATE provider SET collateral_at = now(), gpu_waived_at = now(), gpu_waived_once = true, active_since = now(),
	benchmark_at = now() - make_interval(secs => abs(hashtextextended(provider_id::text, 0) % (10 * 86400)))
	WHERE status = 'active';

-- The table of internal/provider/status.go, as pairs.
CREATE TABLE provider_transition (
	from_status text NOT NULL,
	to_status   text NOT NULL CHECK (to_status <> from_status),
	PRIMARY KEY (from_status, to_status)
);
INSERT INTO provider_transition (from_status, to_status) VALUES
	('pending', 'under_review'), ('pending', 'active'), ('pending', 'suspended'),
	('under_review', 'approved'), ('under_review', 'rejected'), ('under_review', 'suspended'),
	('approved', 'activating'), ('approved', 'pending'), ('approved', 'suspended'),
	('activating', 'active'), ('activating', 'pending'), ('activating', 'suspended'),
	('active', 'pending'), ('active', 'suspended'),
	('suspended', 'pending'),
	('rejected', 'under_review'), ('rejected', 'suspended');

-- +goose StatementBegin
CREATE FUNCTION provider_transition_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		IF NEW.status <> 'pending' THEN
			RAISE EXCEPTION 'a provider begins as pending, not %', NEW.status USING ERRCODE = 'check_violation';
		END IF;
	ELSIF NOT EXISTS (SELECT FROM provider_transition t WHERE t.from_status = OLD.status AND t.to_status = NEW.status) THEN
		RAISE EXCEPTION 'a provider does not go from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
	ELSE
		-- The version before writes the status alone: what it says counts as the
		-- operator's word that it is. Whoever writes facts does so after this, in
		-- the same transaction.
		IF OLD.status = 'active' THEN
			NEW.active_since := NULL;
			NEW.probation_ends_at := NULL;
		END IF;
		IF NEW.status = 'active' THEN
			NEW.collateral_at := coalesce(NEW.collateral_at, now());
			NEW.benchmark_at := coalesce(NEW.benchmark_at, now());
			NEW.active_since := coalesce(NEW.active_since, now());
		ELSIF NEW.status = 'pending' THEN
			NEW.benchmark_at := NULL;
		END IF;
	END IF;
	RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER provider_begins BEFORE INSERT ON provider
	FOR EACH ROW EXECUTE FUNCTION provider_transition_allowed();
CREATE TRIGGER provider_moves BEFORE UPDATE OF status ON provider
	FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION provider_transition_allowed();

-- +goose StatementBegin
CREATE FUNCTION provider_owner_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'a proven owner stays' USING ERRCODE = 'check_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER provider_owner_stays BEFORE UPDATE OF owner_address, owner_proven_at ON provider
	FOR EACH ROW WHEN (OLD.owner_proven_at IS NOT NULL
		AND (OLD.owner_address, OLD.owner_proven_at) IS DISTINCT FROM (NEW.owner_address, NEW.owner_proven_at))
	EXECUTE FUNCTION provider_owner_stays();

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

-- Challenges that were answered, until they would have expired: each counts
-- once. Those that were only made are kept nowhere.
CREATE TABLE wallet_nonce (
	nonce      bytea PRIMARY KEY CHECK (octet_length(nonce) = 32),
	expires_at timestamptz NOT NULL
);
CREATE INDEX wallet_nonce_by_age ON wallet_nonce (expires_at);

GRANT UPDATE (name, owner_address, owner_proven_at, beneficiary_address, beneficiary_at, contact_email, hardware_summary, review_requested_at, rejected_at, collateral_at,
	benchmark_at, gpu_waived_at, gpu_waived_once, active_since, probation_ends_at, uptime_24h, uptime_30d, uptime_at) ON provider TO svc_hub;
GRANT UPDATE (expires_at), DELETE ON provider_key TO svc_hub;
GRANT SELECT ON provider_status_change, provider_transition TO svc_hub;
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_node TO svc_hub;
GRANT SELECT, INSERT, UPDATE (last_seen, heard, ended), DELETE ON hub_run TO svc_hub;
GRANT SELECT, INSERT, UPDATE (ended, ended_by), DELETE ON presence_interval TO svc_hub;
GRANT SELECT, INSERT, DELETE ON wallet_nonce TO svc_hub;

-- +goose Down
DROP TABLE wallet_nonce;
DROP TABLE presence_interval;
DROP TABLE hub_run;
DROP TABLE provider_node;
DROP TRIGGER provider_owner_stays ON provider;
DROP FUNCTION provider_owner_stays;
DROP TRIGGER provider_moves ON provider;
DROP TRIGGER provider_begins ON provider;
DROP FUNCTION provider_transition_allowed;
DROP TABLE provider_transition;
DELETE FROM provider_status_change WHERE from_status = to_status;
DROP INDEX provider_status_change_by_provider, provider_status_change_beneficiary;
ALTER TABLE provider_status_change
	DROP CONSTRAINT provider_status_change_address,
	DROP COLUMN what, DROP COLUMN changed_by, DROP COLUMN reason, DROP COLUMN old_address, DROP COLUMN new_address, DROP COLUMN key_id,
	ADD CONSTRAINT provider_status_change_check CHECK (to_status <> from_status);
REVOKE DELETE ON provider_key FROM svc_hub;
DROP INDEX provider_key_by_provider, provider_key_over;
ALTER TABLE provider_key DROP COLUMN expires_at, DROP COLUMN follows;
DROP INDEX provider_in_probation, provider_by_benchmark, provider_to_qualify, provider_by_measurement;
UPDATE provider SET status = 'pending' WHERE status IN ('under_review', 'approved', 'activating');
UPDATE provider SET status = 'suspended' WHERE status = 'rejected';
ALTER TABLE provider
	DROP COLUMN user_id, DROP COLUMN owner_proven_at, DROP COLUMN owner_address,
	DROP COLUMN beneficiary_address, DROP COLUMN beneficiary_at, DROP COLUMN contact_email,
	DROP COLUMN hardware_summary, DROP COLUMN review_requested_at, DROP COLUMN rejected_at, DROP COLUMN collateral_at,
	DROP COLUMN benchmark_at, DROP COLUMN gpu_waived_once, DROP COLUMN gpu_waived_at, DROP COLUMN active_since, DROP COLUMN probation_ends_at,
	DROP COLUMN uptime_24h, DROP COLUMN uptime_30d, DROP COLUMN uptime_at,
	DROP CONSTRAINT provider_status_check,
	ADD CONSTRAINT provider_status_check CHECK (status IN ('pending', 'active', 'suspended'));
