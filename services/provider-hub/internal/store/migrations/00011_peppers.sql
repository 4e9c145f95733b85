-- The pepper of each hash: its number stands beside the hash, so that the pepper can be changed.

-- +goose Up
-- The peppers in the order in which hubs met them; see package peppers. Number 1 is the pepper of
-- every hash that is older than this table. A fingerprint says nothing of its pepper.
CREATE TABLE pepper (
	number      smallint PRIMARY KEY CHECK (number BETWEEN 1 AND 1000),
	fingerprint bytea UNIQUE CHECK (octet_length(fingerprint) = 8),
	since       timestamptz NOT NULL DEFAULT now(),
	-- When an operator let the hashes that were left count for nothing.
	given_up_at timestamptz,
	-- The secret of identities, sealed under the pepper. It outlives all peppers, because identities
	-- are kept: a removed provider is known again under any pepper.
	identities  bytea CHECK (octet_length(identities) BETWEEN 29 AND 128),
	CONSTRAINT pepper_is_named CHECK (number = 1 OR fingerprint IS NOT NULL)
);
COMMENT ON TABLE pepper IS 'Fingerprints of the peppers that hashes were made with.';
INSERT INTO pepper (number) VALUES (1);
CREATE TRIGGER pepper_keep BEFORE UPDATE ON pepper FOR EACH ROW
	WHEN (NEW.number <> OLD.number OR OLD.given_up_at IS NOT NULL
		OR OLD.fingerprint IS NOT NULL AND NEW.fingerprint IS DISTINCT FROM OLD.fingerprint
		OR OLD.identities IS NOT NULL AND NEW.identities IS DISTINCT FROM OLD.identities)
	EXECUTE FUNCTION pepper_keep();

-- A hub of the previous release knows one pepper, the first, and leaves the default.
ALTER TABLE provider_key
	ADD COLUMN pepper smallint NOT NULL DEFAULT 1,
	ADD CONSTRAINT provider_key_pepper FOREIGN KEY (pepper) REFERENCES pepper NOT VALID;
ALTER TABLE provider_key VALIDATE CONSTRAINT provider_key_pepper;
-- A key's text stays for ever. It may be hashed again under a newer pepper.
CREATE TRIGGER provider_key_text_keep BEFORE UPDATE ON provider_key FOR EACH ROW
	WHEN (NEW.key_hash <> OLD.key_hash AND NEW.pepper <= OLD.pepper) EXECUTE FUNCTION pepper_keep();

GRANT SELECT, INSERT (number, fingerprint), UPDATE (fingerprint, given_up_at, identities) ON pepper TO svc_hub;
GRANT UPDATE (key_hash, pepper) ON provider_key TO svc_hub;
