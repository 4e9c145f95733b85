-- Keys that consumers make for themselves: settings, rotation and last use.
--
-- A rotation gives a key another text and leaves the key itself: whatever counts by key
-- counts both texts. At most one old text is kept, for at most a week.

-- +goose Up
ALTER TABLE consumer_key
    ADD COLUMN include_usage boolean NOT NULL DEFAULT false,
    ADD COLUMN rotated_at    timestamptz,
    ADD COLUMN old_hash      bytea UNIQUE CHECK (octet_length(old_hash) = 32),
    ADD COLUMN old_prefix    text CHECK (char_length(old_prefix) <= 12),
    ADD COLUMN old_until     timestamptz,
    ADD CONSTRAINT consumer_key_old_is_whole CHECK (num_nonnulls(old_hash, old_prefix, old_until) IN (0, 3)),
    ADD CONSTRAINT consumer_key_overlap CHECK (old_until IS NULL
        OR rotated_at IS NOT NULL AND old_until <= rotated_at + interval '7 days');

-- A text gives way to another in a rotation alone, which keeps it as the old one.
CREATE TRIGGER consumer_key_rotates BEFORE UPDATE ON consumer_key
    FOR EACH ROW WHEN (NEW.hash <> OLD.hash AND (NEW.old_hash, NEW.old_prefix) IS DISTINCT FROM (OLD.hash, OLD.prefix))
    EXECUTE FUNCTION refuse_change();

-- For pages of an account's keys, the newest first.
CREATE INDEX consumer_key_page ON consumer_key (account_id, id);

-- When a request of the key last ended, to a minute. It is written with the count, which
-- the same statement changes anyway, so that no request writes one row more.
ALTER TABLE key_inflight ADD COLUMN used_at timestamptz;

GRANT UPDATE (name, allowed_models, expires_at, include_usage, hash, prefix, rotated_at, old_hash, old_prefix, old_until)
    ON consumer_key TO svc_billing;
GRANT UPDATE (used_at) ON key_inflight TO svc_billing;
