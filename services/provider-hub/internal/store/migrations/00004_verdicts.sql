-- +goose Up
-- What other services decide about a provider: verdicts that remove it from the network,
-- the words of the verifier and of settlement on its facts, and references.

-- All at once, so that a hub that works meanwhile waits and never holds one while the
-- migration waits for another.
LOCK TABLE provider, provider_key, provider_status_change IN ACCESS EXCLUSIVE MODE;

-- A verdict that removed a provider, for good. While it stands, neither reversed_at nor
-- over_at is set. A removal is all verdicts of a provider that are not over: it ends with
-- its last reversal, or when the provider leaves the status rejected otherwise.
CREATE TABLE provider_expulsion (
	verdict_id   uuid PRIMARY KEY,
	provider_id  uuid NOT NULL REFERENCES provider,
	expulsion_id bigint GENERATED ALWAYS AS IDENTITY,
	from_status  text NOT NULL CHECK (from_status IN
		('pending', 'under_review', 'approved', 'activating', 'active', 'suspended', 'rejected')),
	reason       text NOT NULL CHECK (char_length(reason) <= 200),
	expelled_at  timestamptz NOT NULL,
	reversed_at  timestamptz,
	over_at      timestamptz
);
CREATE INDEX provider_expulsion_open ON provider_expulsion (provider_id, expulsion_id) WHERE over_at IS NULL;
CREATE TRIGGER provider_expulsion_ends_once BEFORE UPDATE ON provider_expulsion
	FOR EACH ROW EXECUTE FUNCTION provider_expulsion_ends_once();

-- The verdict whose Expel revoked the key; null for a key that is good, or that somebody
-- revoked for ever.
ALTER TABLE provider_key ADD COLUMN expelled_by uuid REFERENCES provider_expulsion;
CREATE INDEX provider_key_expelled ON provider_key (provider_id) WHERE expelled_by IS NOT NULL;
CREATE TRIGGER provider_key_returns BEFORE INSERT OR UPDATE OF revoked_at, expelled_by ON provider_key
	FOR EACH ROW EXECUTE FUNCTION provider_key_returns();

ALTER TABLE provider_status_change ADD COLUMN verdict_id uuid;

ALTER TABLE provider
	-- A reference of the platform: it answers challenges and is never active.
	ADD COLUMN reference boolean NOT NULL DEFAULT false,
	-- When it first became active; set by provider_moves alone.
	ADD COLUMN first_active_at timestamptz,
	-- The last word of the verifier on the benchmark, and of settlement on collateral.
	ADD COLUMN benchmark_revision bigint NOT NULL DEFAULT 0 CHECK (benchmark_revision >= 0),
	ADD COLUMN collateral_revision bigint NOT NULL DEFAULT 0 CHECK (collateral_revision >= 0),
	-- How much of a probation the next activation has, because a removal ended the last
	-- one; null for a whole probation.
	ADD COLUMN probation_left_ms bigint CHECK (probation_left_ms BETWEEN 0 AND 86400000),
	ADD CONSTRAINT provider_reference_never_active CHECK (NOT reference OR first_active_at IS NULL);
UPDATE provider p SET first_active_at = a.at
FROM (SELECT provider_id, min(changed_at) AS at FROM provider_status_change WHERE to_status = 'active' GROUP BY 1) a
WHERE a.provider_id = p.provider_id;
UPDATE provider SET first_active_at = coalesce(active_since, now()) WHERE status = 'active' AND first_active_at IS NULL;
CREATE TRIGGER provider_reference_begins BEFORE UPDATE OF reference ON provider
	FOR EACH ROW WHEN (NEW.reference AND NOT OLD.reference) EXECUTE FUNCTION provider_reference_begins();
CREATE TRIGGER provider_revisions_grow BEFORE UPDATE OF benchmark_revision, collateral_revision ON provider
	FOR EACH ROW WHEN (NEW.benchmark_revision < OLD.benchmark_revision OR NEW.collateral_revision < OLD.collateral_revision)
	EXECUTE FUNCTION provider_revisions_grow();

-- Expel and Reinstate of internal/provider/status.go; provider_transition_allowed wants a
-- verdict with them.
INSERT INTO provider_transition (from_status, to_status) VALUES
	('pending', 'rejected'), ('approved', 'rejected'), ('activating', 'rejected'), ('active', 'rejected'),
	('suspended', 'rejected'), ('rejected', 'pending');

GRANT SELECT, INSERT (verdict_id, provider_id, from_status, reason, expelled_at), UPDATE (reversed_at, over_at)
	ON provider_expulsion TO svc_hub;
GRANT UPDATE (expelled_by) ON provider_key TO svc_hub;
GRANT UPDATE (reference, benchmark_revision, collateral_revision, probation_left_ms) ON provider TO svc_hub;
