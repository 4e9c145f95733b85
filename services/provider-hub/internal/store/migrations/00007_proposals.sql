-- +goose Up
-- Where earnings are to go, and whose wallet is to own the account, as a provider key
-- alone asked for it: at most one of a kind. It takes effect when the account's user
-- confirms it, or, where the account has no user, after 48 hours. Rows are never
-- changed: another address is another row, which waits anew.
CREATE TABLE provider_proposal (
	proposal_id uuid PRIMARY KEY,
	provider_id uuid NOT NULL REFERENCES provider,
	kind        text NOT NULL CHECK (kind IN ('owner', 'beneficiary')),
	address     text NOT NULL CHECK (address ~ '^0x[0-9a-fA-F]{40}$'),
	-- The wallet that signed beside the key; null for a key alone.
	signer      text CHECK (signer ~ '^0x[0-9a-fA-F]{40}$'),
	key_id      uuid NOT NULL REFERENCES provider_key,
	-- By the clock of the database, which hubs cannot set.
	proposed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
	UNIQUE (provider_id, kind),
	CHECK (kind <> 'owner' OR signer IS NOT DISTINCT FROM address)
);
CREATE INDEX provider_proposal_by_key ON provider_proposal (key_id);
CREATE INDEX provider_proposal_by_owner ON provider_proposal (address) WHERE kind = 'owner';
CREATE INDEX provider_proposal_by_age ON provider_proposal (proposed_at);

-- What has become of a proposal by now, by the clock of the database. A key that ends
-- after the proposal took effect takes nothing back.
CREATE VIEW provider_proposal_now AS
	SELECT d.proposal_id, d.provider_id, d.kind, d.address, d.signer, d.key_id, d.proposed_at, t.takes_effect_at,
		coalesce(e.ended_at <= statement_timestamp() AND (t.takes_effect_at IS NULL OR e.ended_at < t.takes_effect_at), false) AS key_ended,
		coalesce(t.takes_effect_at <= statement_timestamp() AND (e.ended_at IS NULL OR e.ended_at >= t.takes_effect_at), false) AS due
	FROM provider_proposal d
	JOIN provider p USING (provider_id)
	JOIN provider_key k ON k.key_id = d.key_id
	CROSS JOIN LATERAL (SELECT CASE WHEN p.user_id IS NULL THEN d.proposed_at + interval '48 hours' END AS takes_effect_at) t
	CROSS JOIN LATERAL (SELECT least(k.revoked_at, k.expires_at) AS ended_at) e;

-- A user is an actor of the history, which names the proposal.
ALTER TABLE provider_status_change ADD COLUMN proposal_id uuid;
CREATE INDEX provider_status_change_by_proposal ON provider_status_change (proposal_id) WHERE proposal_id IS NOT NULL;
ALTER TABLE provider_status_change DROP CONSTRAINT provider_status_change_changed_by_check;
ALTER TABLE provider_status_change ADD CONSTRAINT provider_status_change_changed_by_check
	CHECK (changed_by IN ('operator', 'provider', 'user', 'platform') OR changed_by ~ '^operator:[a-z0-9._@-]{1,64}$') NOT VALID;
ALTER TABLE provider_status_change VALIDATE CONSTRAINT provider_status_change_changed_by_check;
ALTER TABLE provider_status_change DROP CONSTRAINT provider_status_change_address;
ALTER TABLE provider_status_change ADD CONSTRAINT provider_status_change_address CHECK (CASE
	WHEN what IN ('beneficiary', 'beneficiary_proposed', 'owner_proposed') THEN new_address IS NOT NULL AND key_id IS NOT NULL
	WHEN what IN ('beneficiary_unbound', 'owner_unbound') THEN old_address IS NOT NULL AND new_address IS NULL
	ELSE true END) NOT VALID;
ALTER TABLE provider_status_change VALIDATE CONSTRAINT provider_status_change_address;
CREATE INDEX provider_status_change_asked ON provider_status_change (provider_id, changed_at)
	WHERE what IN ('beneficiary_proposed', 'owner_proposed') OR what = 'beneficiary' AND changed_by = 'provider';

-- A proven owner stays unless an operator unbinds it, with an entry in the same
-- transaction.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION provider_owner_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.owner_address IS NULL AND NEW.owner_proven_at IS NULL AND EXISTS (
		SELECT FROM provider_status_change c
		WHERE c.provider_id = NEW.provider_id AND c.what = 'owner_unbound' AND c.old_address = OLD.owner_address
			AND c.changed_by ~ '^operator(:|$)' AND c.xmin = pg_current_xact_id()::xid
	) THEN
		RETURN NEW;
	END IF;
	RAISE EXCEPTION 'a proven owner stays' USING ERRCODE = 'check_violation';
END
$$;
-- +goose StatementEnd

-- Where earnings go changes with an entry in the same transaction, or not at all.
-- +goose StatementBegin
CREATE FUNCTION provider_beneficiary_entered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (
		SELECT FROM provider_status_change c
		WHERE c.provider_id = NEW.provider_id AND c.what IN ('beneficiary', 'beneficiary_unbound')
			AND c.new_address IS NOT DISTINCT FROM NEW.beneficiary_address AND c.xmin = pg_current_xact_id()::xid
	) THEN
		RAISE EXCEPTION 'a beneficiary changes with an entry' USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER provider_beneficiary_entered BEFORE UPDATE OF beneficiary_address ON provider
	FOR EACH ROW WHEN (OLD.beneficiary_address IS DISTINCT FROM NEW.beneficiary_address)
	EXECUTE FUNCTION provider_beneficiary_entered();

-- No UPDATE, and no say in proposed_at.
GRANT SELECT, INSERT (proposal_id, provider_id, kind, address, signer, key_id), DELETE ON provider_proposal TO svc_hub;
GRANT SELECT ON provider_proposal_now TO svc_hub;
