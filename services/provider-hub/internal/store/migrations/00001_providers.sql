-- Providers, their keys, and who was what and when.

-- +goose Up
CREATE TABLE provider (
	provider_id          uuid PRIMARY KEY,
	name                 text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 64),
	status               text NOT NULL CHECK (status IN
		('pending', 'under_review', 'approved', 'activating', 'active', 'suspended', 'rejected')),
	region               text NOT NULL CHECK (char_length(region) <= 32),
	idempotency_key      text UNIQUE CHECK (char_length(idempotency_key) BETWEEN 1 AND 128),
	created_at           timestamptz NOT NULL,
	-- Whose account it is.
	user_id              text UNIQUE CHECK (char_length(user_id) BETWEEN 1 AND 128),
	-- Only claimed, and good for nothing, until its wallet has signed.
	owner_address        text CHECK (owner_address ~ '^0x[0-9a-fA-F]{40}$'),
	owner_proven_at      timestamptz,
	beneficiary_address  text CHECK (beneficiary_address ~ '^0x[0-9a-fA-F]{40}$'),
	beneficiary_at       timestamptz,
	contact_email        text NOT NULL DEFAULT '' CHECK (char_length(contact_email) <= 254),
	hardware_summary     text NOT NULL DEFAULT '' CHECK (char_length(hardware_summary) <= 500),
	review_requested_at  timestamptz,
	rejected_at          timestamptz,
	collateral_at        timestamptz,
	benchmark_at         timestamptz,
	gpu_waived_at        timestamptz,
	-- The waiver came with an activation and ends with it.
	gpu_waived_once      boolean NOT NULL DEFAULT false,
	active_since         timestamptz,
	-- Set while the provider is active and not yet judged.
	probation_ends_at    timestamptz,
	-- What was measured last; nothing rests on it but what is shown and told.
	uptime_24h           double precision CHECK (uptime_24h BETWEEN 0 AND 1),
	uptime_30d           double precision CHECK (uptime_30d BETWEEN 0 AND 1),
	uptime_at            timestamptz,
	CHECK (owner_proven_at IS NULL OR owner_address IS NOT NULL),
	CHECK (NOT gpu_waived_once OR gpu_waived_at IS NOT NULL)
);
CREATE INDEX provider_by_age ON provider (created_at, provider_id);
CREATE UNIQUE INDEX provider_owner ON provider (owner_address) WHERE owner_proven_at IS NOT NULL;
CREATE INDEX provider_in_probation ON provider (probation_ends_at) WHERE status = 'active' AND probation_ends_at IS NOT NULL;
CREATE INDEX provider_by_benchmark ON provider (benchmark_at) WHERE status = 'active';
CREATE INDEX provider_to_qualify ON provider (provider_id)
	WHERE status IN ('pending', 'activating') AND collateral_at IS NOT NULL AND benchmark_at IS NOT NULL;
CREATE INDEX provider_by_measurement ON provider (uptime_at NULLS FIRST);

CREATE TABLE provider_key (
	key_id      uuid PRIMARY KEY,
	provider_id uuid NOT NULL REFERENCES provider,
	name        text NOT NULL CHECK (char_length(name) <= 64),
	key_hash    bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32),
	key_prefix  text NOT NULL CHECK (char_length(key_prefix) = 12),
	created_at  timestamptz NOT NULL DEFAULT now(),
	revoked_at  timestamptz,
	expires_at  timestamptz,
	-- Whether it was made to follow another one.
	follows     boolean NOT NULL DEFAULT false
);
CREATE INDEX provider_key_by_provider ON provider_key (provider_id, created_at);
CREATE INDEX provider_key_over ON provider_key (least(expires_at, revoked_at)) WHERE least(expires_at, revoked_at) IS NOT NULL;

-- Who was what and when; only ever added to. A confirmation is a line whose status
-- stays. A line keeps the name of the operator who acted: operator:alice.
CREATE TABLE provider_status_change (
	change_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	provider_id uuid NOT NULL REFERENCES provider,
	from_status text NOT NULL,
	to_status   text NOT NULL,
	changed_at  timestamptz NOT NULL DEFAULT now(),
	what        text NOT NULL DEFAULT 'set' CHECK (char_length(what) BETWEEN 1 AND 32),
	changed_by  text NOT NULL DEFAULT 'operator'
		CHECK (changed_by IN ('operator', 'provider', 'user', 'platform') OR changed_by ~ '^operator:[a-z0-9._@-]{1,64}$'),
	reason      text NOT NULL DEFAULT '' CHECK (char_length(reason) <= 200),
	-- Of a change of where earnings go: from where, to where, and by which key.
	old_address text,
	new_address text,
	key_id      uuid REFERENCES provider_key,
	proposal_id uuid,
	CONSTRAINT provider_status_change_address CHECK (CASE
		WHEN what IN ('beneficiary', 'beneficiary_proposed', 'owner_proposed') THEN new_address IS NOT NULL AND key_id IS NOT NULL
		WHEN what IN ('beneficiary_unbound', 'owner_unbound') THEN old_address IS NOT NULL AND new_address IS NULL
		ELSE true END)
);
CREATE INDEX provider_status_change_by_provider ON provider_status_change (provider_id, change_id);
CREATE INDEX provider_status_change_beneficiary ON provider_status_change (provider_id, changed_at) WHERE what = 'beneficiary';
CREATE INDEX provider_status_change_by_key ON provider_status_change (key_id) WHERE key_id IS NOT NULL;
CREATE INDEX provider_status_change_by_proposal ON provider_status_change (proposal_id) WHERE proposal_id IS NOT NULL;
CREATE INDEX provider_status_change_asked ON provider_status_change (provider_id, changed_at)
	WHERE what IN ('beneficiary_proposed', 'owner_proposed') OR what = 'beneficiary' AND changed_by = 'provider';

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

CREATE TRIGGER provider_begins BEFORE INSERT ON provider
	FOR EACH ROW EXECUTE FUNCTION provider_transition_allowed();
CREATE TRIGGER provider_moves BEFORE UPDATE OF status ON provider
	FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION provider_transition_allowed();
CREATE TRIGGER provider_owner_stays BEFORE UPDATE OF owner_address, owner_proven_at ON provider
	FOR EACH ROW WHEN (OLD.owner_proven_at IS NOT NULL
		AND (OLD.owner_address, OLD.owner_proven_at) IS DISTINCT FROM (NEW.owner_address, NEW.owner_proven_at))
	EXECUTE FUNCTION provider_owner_stays();
CREATE TRIGGER provider_beneficiary_entered BEFORE UPDATE OF beneficiary_address ON provider
	FOR EACH ROW WHEN (OLD.beneficiary_address IS DISTINCT FROM NEW.beneficiary_address)
	EXECUTE FUNCTION provider_beneficiary_entered();

-- Challenges that were answered, until they would have expired: each counts
-- once. Those that were only made are kept nowhere.
CREATE TABLE wallet_nonce (
	nonce      bytea PRIMARY KEY CHECK (octet_length(nonce) = 32),
	expires_at timestamptz NOT NULL
);
CREATE INDEX wallet_nonce_by_age ON wallet_nonce (expires_at);

GRANT SELECT, INSERT ON provider TO svc_hub;
GRANT UPDATE (status, name, owner_address, owner_proven_at, beneficiary_address, beneficiary_at, contact_email,
	hardware_summary, review_requested_at, rejected_at, collateral_at, benchmark_at, gpu_waived_at, gpu_waived_once,
	active_since, probation_ends_at, uptime_24h, uptime_30d, uptime_at) ON provider TO svc_hub;
GRANT SELECT, INSERT, UPDATE (revoked_at, expires_at), DELETE ON provider_key TO svc_hub;
GRANT SELECT, INSERT ON provider_status_change TO svc_hub;
GRANT SELECT ON provider_transition TO svc_hub;
GRANT SELECT, INSERT, DELETE ON wallet_nonce TO svc_hub;
