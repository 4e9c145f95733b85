-- What operators set, with who and why, and house accounts with their keys.

-- +goose Up
CREATE TABLE setting (
    name       text COLLATE "C" PRIMARY KEY CHECK (name IN ('penalties', 'probes')),
    enabled    boolean NOT NULL,
    revision   bigint NOT NULL CHECK (revision > 0),
    changed_at timestamptz NOT NULL
);
COMMENT ON TABLE setting IS 'What operators turn on and off. Penalties begin turned off.';
CREATE TABLE setting_change (
    name       text COLLATE "C" NOT NULL REFERENCES setting,
    revision   bigint NOT NULL CHECK (revision > 0),
    enabled    boolean NOT NULL,
    actor      text COLLATE "C" NOT NULL CHECK (actor = 'platform' OR actor ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    reason     text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (name, revision)
);
COMMENT ON TABLE setting_change IS 'Who turned what on or off, when and why; one row for each revision. Only ever added.';
INSERT INTO setting (name, enabled, revision, changed_at) VALUES
    ('penalties', false, 1, '2026-01-01 00:00:00+00'), ('probes', true, 1, '2026-01-01 00:00:00+00');
INSERT INTO setting_change (name, revision, enabled, actor, reason, changed_at) VALUES
    ('penalties', 1, false, 'platform', 'penalties begin turned off', '2026-01-01 00:00:00+00'),
    ('probes', 1, true, 'platform', 'probes begin turned on', '2026-01-01 00:00:00+00');

CREATE TRIGGER setting_moves BEFORE UPDATE ON setting FOR EACH ROW EXECUTE FUNCTION setting_moves();
CREATE TRIGGER setting_keep BEFORE DELETE ON setting FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER setting_keep_all BEFORE TRUNCATE ON setting FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE CONSTRAINT TRIGGER setting_entered AFTER UPDATE ON setting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION setting_entered();
CREATE CONSTRAINT TRIGGER setting_change_follows AFTER INSERT ON setting_change
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION setting_change_follows();
CREATE TRIGGER setting_change_keep BEFORE UPDATE OR DELETE ON setting_change
    FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER setting_change_keep_all BEFORE TRUNCATE ON setting_change
    FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

CREATE TABLE house_account (
    -- Counts the accounts from 1.
    number     integer PRIMARY KEY CHECK (number BETWEEN 1 AND 256),
    account_id uuid NOT NULL CONSTRAINT house_account_once UNIQUE,
    opened_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE house_account IS 'The accounts of the platform that pay for hidden probes. Only ever added.';
CREATE TABLE house_key (
    key_id       uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES house_account (account_id),
    -- The key itself, encrypted; null once it is forgotten.
    sealed       bytea CHECK (octet_length(sealed) BETWEEN 29 AND 1024),
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    forgotten_at timestamptz,
    CONSTRAINT house_key_forgotten CHECK ((sealed IS NULL) = (forgotten_at IS NOT NULL))
);
COMMENT ON TABLE house_key IS 'Keys of house accounts. A key that was revoked is forgotten; its row stays.';
CREATE INDEX house_key_live ON house_key (account_id, created_at) WHERE forgotten_at IS NULL;
CREATE TRIGGER house_account_keep BEFORE UPDATE OR DELETE ON house_account FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER house_account_keep_all BEFORE TRUNCATE ON house_account FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();
CREATE TRIGGER house_key_moves BEFORE INSERT OR UPDATE ON house_key FOR EACH ROW EXECUTE FUNCTION house_key_moves();
CREATE TRIGGER house_key_keep BEFORE DELETE ON house_key FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER house_key_keep_all BEFORE TRUNCATE ON house_key FOR EACH STATEMENT EXECUTE FUNCTION rows_keep();

GRANT SELECT, UPDATE (enabled, revision) ON setting TO svc_verifier;
GRANT SELECT, INSERT ON setting_change TO svc_verifier;
GRANT SELECT, INSERT (number, account_id) ON house_account TO svc_verifier;
GRANT SELECT, INSERT (key_id, account_id, sealed, expires_at), UPDATE (sealed, forgotten_at) ON house_key TO svc_verifier;
