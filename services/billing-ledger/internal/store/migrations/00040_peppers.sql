-- The pepper of each hash: its number stands beside the hash, so that the pepper can be changed.

-- +goose Up
-- The peppers in the order in which the service met them; see package peppers. Number 1 is the pepper
-- of every hash that is older than this table. A fingerprint says nothing of its pepper.
CREATE TABLE pepper (
    number      smallint PRIMARY KEY CHECK (number BETWEEN 1 AND 1000),
    fingerprint bytea UNIQUE CHECK (octet_length(fingerprint) = 8),
    since       timestamptz NOT NULL DEFAULT now(),
    -- When an operator let the hashes that were left count for nothing.
    given_up_at timestamptz,
    CONSTRAINT pepper_is_named CHECK (number = 1 OR fingerprint IS NOT NULL)
);
COMMENT ON TABLE pepper IS 'Fingerprints of the peppers that hashes were made with.';
INSERT INTO pepper (number) VALUES (1);
CREATE TRIGGER pepper_stays BEFORE UPDATE ON pepper FOR EACH ROW
    WHEN (NEW.number <> OLD.number OR OLD.given_up_at IS NOT NULL
        OR OLD.fingerprint IS NOT NULL AND NEW.fingerprint IS DISTINCT FROM OLD.fingerprint)
    EXECUTE FUNCTION refuse_change();

-- A replica of the previous release knows one pepper, the first, and leaves the default.
ALTER TABLE consumer_key
    ADD COLUMN pepper     smallint NOT NULL DEFAULT 1,
    ADD COLUMN old_pepper smallint NOT NULL DEFAULT 1,
    ADD CONSTRAINT consumer_key_pepper FOREIGN KEY (pepper) REFERENCES pepper NOT VALID,
    ADD CONSTRAINT consumer_key_old_pepper FOREIGN KEY (old_pepper) REFERENCES pepper NOT VALID;
ALTER TABLE consumer_key VALIDATE CONSTRAINT consumer_key_pepper;
ALTER TABLE consumer_key VALIDATE CONSTRAINT consumer_key_old_pepper;
ALTER TABLE operator ADD COLUMN totp_pepper smallint NOT NULL DEFAULT 1 REFERENCES pepper;

-- A text gives way to another in a rotation alone, which keeps it as the old one. The same text may be
-- hashed again under a newer pepper.
DROP TRIGGER consumer_key_rotates ON consumer_key;
CREATE TRIGGER consumer_key_rotates BEFORE UPDATE ON consumer_key
    FOR EACH ROW WHEN (NEW.hash <> OLD.hash AND (NEW.old_hash, NEW.old_prefix) IS DISTINCT FROM (OLD.hash, OLD.prefix)
        AND (NEW.pepper <= OLD.pepper OR NEW.prefix <> OLD.prefix
            OR (NEW.old_hash, NEW.old_prefix, NEW.old_until) IS DISTINCT FROM (OLD.old_hash, OLD.old_prefix, OLD.old_until)))
    EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT (number, fingerprint), UPDATE (fingerprint, given_up_at) ON pepper TO svc_billing;
GRANT UPDATE (pepper, old_pepper) ON consumer_key TO svc_billing;
GRANT UPDATE (totp_pepper) ON operator TO svc_billing;
