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

-- No UPDATE, and no say in proposed_at.
GRANT SELECT, INSERT (proposal_id, provider_id, kind, address, signer, key_id), DELETE ON provider_proposal TO svc_hub;
