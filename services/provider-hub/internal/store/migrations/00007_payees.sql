-- +goose Up
-- What settlement asks of a provider: whose its earnings are, where they go and since when;
-- and why it is suspended. provider_transition_allowed has a new text too.

-- All at once, so that a hub that works meanwhile waits and never holds one while the
-- migration waits for another.
LOCK TABLE provider, provider_status_change IN ACCESS EXCLUSIVE MODE;

ALTER TABLE provider
	-- The consumer account of the user, to which earnings may be converted.
	ADD COLUMN account_id text CHECK (char_length(account_id) BETWEEN 1 AND 128),
	-- Set by provider_payee_times alone, by the clock of the database: since when earnings go
	-- where they go, whether they have gone there since the account was opened, and when
	-- the proven wallet was bound.
	ADD COLUMN beneficiary_since timestamptz,
	ADD COLUMN beneficiary_at_signup boolean NOT NULL DEFAULT false,
	ADD COLUMN owner_bound_at timestamptz;
UPDATE provider SET owner_bound_at = owner_proven_at,
	beneficiary_since = CASE WHEN beneficiary_address IS NOT NULL THEN coalesce(beneficiary_at, created_at) END,
	beneficiary_at_signup = beneficiary_address IS NOT NULL AND beneficiary_at IS NULL
WHERE owner_proven_at IS NOT NULL OR beneficiary_address IS NOT NULL;
CREATE TRIGGER provider_payee_begins BEFORE INSERT ON provider
	FOR EACH ROW EXECUTE FUNCTION provider_payee_times();
CREATE TRIGGER provider_payee_changes BEFORE UPDATE OF account_id, beneficiary_address, beneficiary_since,
	beneficiary_at_signup, owner_address, owner_proven_at, owner_bound_at ON provider
	FOR EACH ROW EXECUTE FUNCTION provider_payee_times();

-- The causes of suspensions: one row of each that a provider ever had. A provider that is not
-- rejected is suspended exactly while one of them holds.
CREATE TABLE provider_suspension (
	provider_id uuid NOT NULL REFERENCES provider,
	cause       text NOT NULL CHECK (cause IN ('admin', 'refund', 'card', 'exit')),
	-- Null when it does not hold.
	since       timestamptz,
	reason      text NOT NULL DEFAULT '' CHECK (char_length(reason) <= 200),
	-- The last word of settlement on the cause.
	revision    bigint NOT NULL DEFAULT 0 CHECK (revision >= 0),
	PRIMARY KEY (provider_id, cause),
	CONSTRAINT provider_suspension_by_whom CHECK ((cause = 'admin') = (revision = 0))
);
-- Whoever is suspended, or was when a verdict that is not over removed it, is so by an
-- operator: the version before knows no other cause.
INSERT INTO provider_suspension (provider_id, cause, since)
SELECT p.provider_id, 'admin', now() FROM provider p
WHERE p.status = 'suspended' OR p.status = 'rejected' AND 'suspended' = (
	SELECT e.from_status FROM provider_expulsion e WHERE e.provider_id = p.provider_id AND e.over_at IS NULL
	ORDER BY e.expulsion_id LIMIT 1);
CREATE TRIGGER provider_suspension_follows BEFORE INSERT OR UPDATE ON provider_suspension
	FOR EACH ROW EXECUTE FUNCTION provider_suspension_follows();
CREATE CONSTRAINT TRIGGER provider_suspended_by_cause
	AFTER INSERT OR UPDATE ON provider_suspension
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION provider_suspended_by_cause();
CREATE CONSTRAINT TRIGGER provider_suspended_by_cause
	AFTER UPDATE OF status ON provider
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
	EXECUTE FUNCTION provider_suspended_by_cause();

ALTER TABLE provider_status_change
	-- Of a suspension that began or ended.
	ADD COLUMN cause text CHECK (cause IN ('admin', 'refund', 'card', 'exit'));

GRANT UPDATE (account_id) ON provider TO svc_hub;
GRANT SELECT, INSERT, UPDATE (since, reason, revision) ON provider_suspension TO svc_hub;
